import { MODULES_VARIABLE } from '../setup/runner/loaded-modules.ts'

const LOADED = new URL('../setup/runner/loaded-modules.ts', import.meta.url).href

/**
 * Node's flags for a process that loads this checkout's sources as fast as a test file does (setup/runner/modules.ts).
 */
export const sourceFlags: readonly string[] = [
  '--disable-warning=ExperimentalWarning',
  ...(process.env[MODULES_VARIABLE] === undefined ? [] : ['--import', LOADED]),
]
