// Several JobManagers may serve one cluster, and one of them leads. The page goes where the leader is.
import { cameFrom, get, moveTo } from "./api.js";
import { watch } from "./live.js";

const PATIENCE = 2; // so often the leader may fail to answer before the page looks elsewhere
let standbys = [];

// The leader tells where the standbys are while it can.
export function followLeader() {
  watch("/penstock/leader", ({ data }) => { if (data) standbys = data.standbys.filter((address) => address !== location.host); });
}

// Called when the stream of news has failed so often. Returns nothing; the page may be left.
export async function lookForLeader(failures) {
  try {
    const { leader } = await get("/penstock/leader", { mayAsk: false });
    // A standby may name the one that has just died, until somebody else leads.
    if (leader && leader !== cameFrom) moveTo(leader);
  } catch (error) {
    if (error.status === 0 && failures >= PATIENCE && standbys.length) moveTo(standbys[failures % standbys.length], { gone: location.host });
  }
}
