export type { StandaloneOptions } from './options.ts'
export { listenError } from './ports/listen-error.ts'
export type { Endpoint, Problem, Report } from './report.ts'
export { Standalone } from './standalone.ts'
