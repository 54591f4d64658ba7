import { tooManyBytes } from '../format/budget.ts'
import { contentOf } from '../format/file-content.ts'
import type { Pass, PlaceOf, ReadChange } from '../format/source.ts'

/** Looks at a registry file that stands in the configuration itself. */
export async function readInline({ text }: PlaceOf<'inline'>, pass: Pass): Promise<ReadChange | undefined> {
  const bytes = Buffer.from(text)
  if (bytes.length > pass.maxBytes) throw tooManyBytes(pass.maxBytes)
  return contentOf(() => [bytes], pass)
}
