/** Levels of log messages, the least severe first (RFC 5424, as MCP has them). */
export const LEVELS: readonly string[] = [
  'debug',
  'info',
  'notice',
  'warning',
  'error',
  'critical',
  'alert',
  'emergency',
]

/** How severe a log message of this level (any JSON value) is; -1 where it is no level. */
export const levelOf = (level: unknown): number => (typeof level === 'string' ? LEVELS.indexOf(level) : -1)
