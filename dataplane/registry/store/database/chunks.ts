/** Rows written by one statement: enough to make the statement's own cost small, within the limits on parameters. */
const CHUNK = 200

/** Hands the items over in chunks, one after the other. */
export async function inChunks<T>(items: readonly T[], each: (chunk: T[]) => Promise<unknown>): Promise<void> {
  for (let at = 0; at < items.length; at += CHUNK) await each(items.slice(at, at + CHUNK))
}
