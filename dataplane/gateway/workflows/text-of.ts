/** A value as a template shows it: texts as they are, nothing for what is not there, all else as JSON. */
export function textOf(value: unknown): string {
  if (typeof value === 'string') return value
  return value === undefined || value === null ? '' : JSON.stringify(value)
}
