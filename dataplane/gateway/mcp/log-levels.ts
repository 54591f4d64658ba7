/** The levels of log messages, the least severe first (RFC 5424, as MCP has them). */
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

/** Returns the severity of a log level (any JSON value); -1 if it is no level. */
export const levelOf = (level: unknown): number => (typeof level === 'string' ? LEVELS.indexOf(level) : -1)
