import type { Logger } from 'pino'
import type { Catalog } from '../aggregation/catalog.ts'

/** Logs what people should know of what is shown. */
export function warnOf({ warnings, withheldPages, compositeProblems }: Catalog, log: Logger): void {
  if (warnings.length > 0) log.warn({ names: warnings }, 'tool names clash')
  if (withheldPages.length > 0) log.warn({ tools: withheldPages }, 'pages of apps are withheld')
  if (compositeProblems.length > 0) log.warn({ tools: compositeProblems }, 'composite tools have problems')
}
