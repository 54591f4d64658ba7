export { listenError } from './ports.ts'
export type { Endpoint, Problem, Report } from './report.ts'
export { Standalone, type StandaloneOptions } from './standalone.ts'
