// What the figures of a job were since the page was opened: charts begin with it, whichever tab was open.
const KEPT_MS = 15 * 60_000;
const jobs = new Map(); // id -> [{time, vertices: Map}]

export function remember(id, job) {
  const samples = jobs.get(id) ?? [];
  jobs.set(id, samples);
  const last = samples[samples.length - 1];
  if (last && job.now - last.time < 400) return;
  samples.push({ time: job.now, latency: job.latency, vertices: new Map(job.vertices.map((vertex) => [vertex.id, vertex])) });
  while (samples[0].time < job.now - KEPT_MS) samples.shift();
}

export function samplesOf(id) {
  return jobs.get(id) ?? [];
}
