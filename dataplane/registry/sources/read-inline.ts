import { contentOf } from './read-file.ts'
import type { Content, Pass, PlaceOf } from './source.ts'

/** Reads a registry file that stands in the configuration itself. */
export async function readInline({ text }: PlaceOf<'inline'>, pass: Pass): Promise<Content | undefined> {
  return contentOf(Buffer.from(text), pass)
}
