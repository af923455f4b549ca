/** The process's own environment, once opencode has read from it what it needs. */

/** Those for which `reef-opencode` gives folders of Reef's, so that the user's own opencode is left alone. */
const DISPLACED = ["XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"];

/** Gives the user's own folders back to whatever opencode starts from now on: git, language servers, what its shell runs. */
export function giveBack(): void {
  for (const name of DISPLACED) {
    const was = process.env[`REEF_WAS_${name}`];
    if (was) process.env[name] = was;
    else delete process.env[name];
  }
}
