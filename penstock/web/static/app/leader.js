// @ts-check
// Several JobManagers may serve one cluster, and one of them leads. The page goes where the leader
// is.
import { ApiError, cameFrom, get, moveTo } from "./api.js";
import { watch } from "./live.js";

/** @import { Answer } from "../../types.d.ts" */

const PATIENCE = 2; // so often the leader may fail to answer before the page looks elsewhere
/** @type {string[]} */
let standbys = [];

// The leader tells where the standbys are while it can.
export function followLeader() {
  watch("/penstock/leader", ({ data }) => {
    const known = /** @type {Answer<"/penstock/leader"> | undefined} */ (data);
    if (known) standbys = known.standbys.filter((address) => address !== location.host);
  });
}

/**
 * Called when the stream of news has failed so often. The page may be left.
 * @param {number} failures
 */
export async function lookForLeader(failures) {
  try {
    const { leader } = await get("/penstock/leader", { mayAsk: false });
    // A standby may name the one that has just died, until somebody else leads.
    if (leader && leader !== cameFrom) moveTo(leader);
  } catch (error) {
    const silent = error instanceof ApiError && error.status === 0;
    if (silent && failures >= PATIENCE && standbys.length)
      moveTo(standbys[failures % standbys.length], { gone: location.host });
  }
}
