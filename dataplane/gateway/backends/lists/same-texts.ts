interface Item {
  readonly text: string
}

/** Whether two lists are the same, text by text. */
export function sameTexts(before: readonly Item[] | undefined, after: readonly Item[]): boolean {
  if (before?.length !== after.length) return false
  return after.every(({ text }, index) => text === before[index]?.text)
}
