const isFields = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null

/** Lists the differences between two JSON values, one for each line: the JSON pointer, the old and the new value. */
export function differences(before: unknown, after: unknown, pointer = ''): readonly string[] {
  if (!isFields(before) || !isFields(after))
    return before === after ? [] : [`${pointer}: ${JSON.stringify(before)} became ${JSON.stringify(after)}`]
  const keys = [...new Set([...Object.keys(before), ...Object.keys(after)])].sort()
  return keys.flatMap((key) => differences(before[key], after[key], `${pointer}/${key}`))
}
