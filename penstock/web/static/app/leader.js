// @ts-check
// Several JobManagers may serve one cluster, and one of them leads. The page goes where the leader
// is.
import { ApiError, cameFrom, get, moveTo } from "./api.js";
import { watch } from "./live.js";

/** @import { Answer } from "../../types.d.ts" */

const PATIENCE = 2; // failed requests to the leader before the page tries the standbys
/** @type {string[]} */
let standbys = [];

// The leader reports the addresses of the standbys while it runs.
export function followLeader() {
  watch("/penstock/leader", ({ data }) => {
    const known = /** @type {Answer<"/penstock/leader"> | undefined} */ (data);
    if (known) standbys = known.standbys.filter((address) => address !== location.host);
  });
}

/**
 * Called after this many failures of the event stream. The page may navigate away.
 * @param {number} failures
 */
export async function lookForLeader(failures) {
  try {
    const { leader } = await get("/penstock/leader", { mayAsk: false });
    // A standby may still report the leader that has just died, until there is a new one.
    if (leader && leader !== cameFrom) moveTo(leader);
  } catch (error) {
    const silent = error instanceof ApiError && error.status === 0;
    if (silent && failures >= PATIENCE && standbys.length)
      moveTo(standbys[failures % standbys.length], { gone: location.host });
  }
}
