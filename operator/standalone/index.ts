export { listenError } from './ports/local-ports.ts'
export type { Endpoint, Problem, Report } from './report.ts'
export type { StandaloneOptions } from './standalone.ts'
export { Standalone } from './standalone.ts'
