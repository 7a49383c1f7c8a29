// What the REST API answers, as far as the page reads it. For the type checker only: nothing here is sent to browsers.
import type { VNode } from "preact";

export type Figure = number | null | undefined;
export type Markup = VNode | VNode[] | string | null;
export type Tone = "ok" | "info" | "warn" | "bad" | "";
export type Timestamps = Record<string, number>;
export type Load = { busy?: Figure; backPressured?: Figure };

/** What a handler reads of an event of a field. */
export type Changed = { target: HTMLInputElement };
export type Choice = [key: string, text: string];
export type Close = (done: boolean) => void;
export type Timer = ReturnType<typeof setTimeout> | undefined;

export type Operator = { id: string; name: string; uid?: string | null };

export type Vertex = {
  id: string;
  name: string;
  status: string;
  parallelism: number;
  maxParallelism: number;
  source: boolean;
  operators: Operator[];
  busy?: Figure;
  backPressured?: Figure;
  idle?: Figure;
  recordsInPerSecond?: Figure;
  recordsOutPerSecond?: Figure;
  bytesInPerSecond?: Figure;
  bytesOutPerSecond?: Figure;
  watermark?: Figure;
  "start-time": number;
  "end-time": number;
};

export type Edge = {
  source: string;
  target: string;
  strategy: string;
  recordsPerSecond?: Figure;
  bytesPerSecond?: Figure;
  watermark?: Figure;
};
export type MergedEdge = Edge & { strategies: Set<string> };

export type Job = {
  jid: string;
  name: string;
  state: string;
  now: number;
  duration: number;
  "start-time": number;
  "end-time": number;
  restarts: number;
  failures: number;
  vertices: Vertex[];
  edges: Edge[];
  checkpoint?: { completed?: number; duration?: number } | null;
  latency?: { p50: number; p99: number } | null;
  dropped?: Dropped[];
};

/** Records that an operator has dropped for one reason. */
export type Dropped = {
  name: string;
  metric: string;
  reason: string;
  dropped: number;
  records: number;
  /** What is counted: records, or partial aggregates of several records each. */
  unit?: string;
  watermark: number | null;
  lateness_ms: number | null;
};

/** What every tab of a job is given. */
export type TabProps = {
  id: string;
  job: Job;
  now: number;
  query: Record<string, string>;
  tab: string;
};

export type Place = { x: number; y: number };
export type EdgePlace = Place & { key: string; source: string; target: string; path: string };
export type Layout = {
  width: number;
  height: number;
  nodes: Map<string, Place>;
  edges: EdgePlace[];
};
export type View = { x: number; y: number; width: number; height: number };

export type Sample = { time: number; latency?: Job["latency"]; vertices: Map<string, Vertex> };
export type Series = { name: string; values: Figure[] };

export type JobRow = {
  jid: string;
  name: string;
  state: string;
  duration: number;
  "start-time": number;
  tasks: Record<string, number>;
};
export type Overview = {
  taskmanagers: number;
  "slots-total": number;
  "slots-available": number;
  "jobs-running": number;
  "flink-version"?: string;
  penstock?: { version?: string };
};

export type Worker = {
  id: string;
  path: string;
  slotsNumber: number;
  freeSlots?: number;
  timeSinceLastHeartbeat?: number;
  hardware?: { cpuCores?: number; physicalMemory?: number };
};
export type Thread = { threadName: string; stringifiedThreadInfo?: string };
export type Option = { key: string; value: string };

export type Checkpoint = {
  id: number;
  status: string;
  is_savepoint?: boolean;
  trigger_timestamp: number;
  end_to_end_duration?: Figure;
  checkpointed_size?: Figure;
  state_size?: Figure;
  num_subtasks: number;
  num_acknowledged_subtasks: number;
  external_path?: string;
};
export type Checkpoints = {
  counts: { completed: number; failed: number; in_progress: number; restored: number };
  summary: { end_to_end_duration: { avg?: Figure; p99?: Figure } };
  latest: {
    completed?: Checkpoint | null;
    savepoint?: Checkpoint | null;
    restored?: { id: number; restore_timestamp: number } | null;
  };
  history: Checkpoint[];
};
export type CheckpointTask = {
  num_subtasks: number;
  num_acknowledged_subtasks: number;
  latest_ack_timestamp?: Figure;
  end_to_end_duration?: Figure;
  checkpointed_size?: Figure;
  state_size?: Figure;
};
export type CheckpointDetail = {
  failure_message?: string;
  external_path?: string;
  tasks: Record<string, CheckpointTask>;
};
export type CheckpointSubtask = {
  index: number;
  status: string;
  end_to_end_duration?: Figure;
  checkpoint: { sync?: Figure; async?: Figure };
  alignment: { duration?: Figure };
  checkpointed_size?: Figure;
  state_size?: Figure;
};
export type CheckpointConfig = {
  mode: string;
  unaligned_checkpoints?: boolean;
  interval: number;
  timeout: number;
  min_pause: number;
  state_backend: string;
  checkpoint_storage: string;
};

export type Failure = {
  exceptionName?: string;
  stacktrace?: string;
  timestamp?: number;
  taskName?: string | null;
  endpoint?: string | null;
  location?: string | null;
  concurrentExceptions?: Failure[];
};
export type Exceptions = {
  "root-exception"?: string | null;
  timestamp?: number;
  exceptionHistory?: { entries: Failure[]; truncated?: boolean };
};

export type Finding = {
  rule: string;
  severity: string;
  title: string;
  detail?: string;
  hint?: string;
  vertex?: string | null;
};

export type Call = { name: string; value: number; children?: Call[] };
export type Frame = { node: Call; left: number; width: number; depth: number; path: string };
export type Flame = { endTimestamp: number; data?: Call | null };

export type Subtask = {
  subtask: number;
  status: string;
  attempt: number;
  host?: string;
  endpoint?: string;
  timestamps?: Timestamps;
  metrics?: Record<string, Figure>;
};
export type SubtaskLoad = {
  subtask: number;
  backpressureLevel?: string;
  "backpressure-level"?: string;
  ratio?: Figure;
  busyRatio?: Figure;
  idleRatio?: Figure;
};

export type PlanNode = {
  id: string;
  description?: string;
  parallelism: number;
  inputs?: { id: string; ship_strategy: string }[];
};

export type StateInfo = {
  name: string;
  table?: string;
  kind: string;
  type?: string;
  keyed?: boolean;
  internal?: boolean;
  expires?: unknown;
  entries?: Figure;
  size?: Figure;
};
export type StateOperator = { id: string; name: string; size?: Figure; states: StateInfo[] };
export type StateTable = {
  operator: StateOperator;
  state?: StateInfo;
  table: string;
  title: string;
};
export type StateRows = {
  columns: string[];
  rows: unknown[][];
  more: boolean;
  incomplete?: boolean;
  checkpoint: { id: number };
};

export type Program = { id: string; name: string; uploaded: number };
export type MetricValue = { id: string; avg?: number; sum?: number };
export type OperationResult = {
  location?: string;
  "failure-cause"?: { class?: string; message?: string; "stack-trace"?: string };
};

/** The answer at a path, the longer paths first. */
export type Answer<P extends string> = P extends "/overview"
  ? Overview
  : P extends "/jobs/overview"
    ? { jobs: JobRow[] }
    : P extends "/config"
      ? { features: Record<string, boolean> }
      : P extends "/jars"
        ? { files: Program[] }
        : P extends "/taskmanagers"
          ? { taskmanagers: Worker[] }
          : P extends "/jobmanager/config"
            ? Option[]
            : P extends "/penstock/leader"
              ? { leader?: string; standbys: string[] }
              : P extends `/penstock/jobs/${string}`
                ? PenstockAnswer<P>
                : P extends `/jobs/${string}`
                  ? JobAnswer<P>
                  : unknown;

type PenstockAnswer<P extends string> = P extends `${string}/graph`
  ? Job
  : P extends `${string}/diagnosis`
    ? { findings?: Finding[] }
    : P extends `${string}/state/${string}`
      ? StateRows
      : P extends `${string}/state`
        ? { checkpoint: { id: number }; operators: StateOperator[] }
        : unknown;

type JobAnswer<P extends string> =
  P extends `${string}/checkpoints/details/${string}/subtasks/${string}`
    ? { subtasks: CheckpointSubtask[] }
    : P extends `${string}/checkpoints/details/${string}`
      ? CheckpointDetail
      : P extends `${string}/checkpoints/config`
        ? CheckpointConfig
        : P extends `${string}/checkpoints`
          ? Checkpoints
          : P extends `${string}/exceptions`
            ? Exceptions
            : P extends `${string}/config`
              ? {
                  "execution-config"?: { "user-config"?: Record<string, unknown> } & Record<
                    string,
                    unknown
                  >;
                }
              : P extends `${string}/plan`
                ? { plan: { nodes: PlanNode[] } }
                : P extends `${string}/vertices/${string}`
                  ? VertexAnswer<P>
                  : { timestamps: Timestamps };

type VertexAnswer<P extends string> = P extends `${string}/backpressure`
  ? { subtasks?: SubtaskLoad[] }
  : P extends `${string}/flamegraph${string}`
    ? Flame
    : P extends `${string}/subtasks/metrics${string}`
      ? MetricValue[]
      : { subtasks: Subtask[] };

declare global {
  interface Window {
    penstockTheme: { get(): string; set(theme: string): void };
  }
}
