import { contentOf } from './file-content.ts'
import type { Pass, PlaceOf, ReadChange } from './source.ts'

/** Looks at a registry file that stands in the configuration itself. */
export async function readInline({ text }: PlaceOf<'inline'>, pass: Pass): Promise<ReadChange | undefined> {
  const bytes = Buffer.from(text)
  return contentOf(() => [bytes], pass)
}
