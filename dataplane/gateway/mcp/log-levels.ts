/** The log levels of MCP, which are those of RFC 5424, the least severe first. */
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

/** Returns the severity of a log level (any JSON value); -1 for any other value. */
export const rankLevel = (level: unknown): number => (typeof level === 'string' ? LEVELS.indexOf(level) : -1)
