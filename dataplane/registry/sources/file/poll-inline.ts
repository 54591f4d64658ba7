import { tooManyBytes } from '../format/budget.ts'
import { pollContent } from '../format/file-content.ts'
import type { LocationOf, Pass, ReadChange } from '../format/source.ts'

/** Polls a registry file that stands in the configuration itself. */
export async function pollInline({ text }: LocationOf<'inline'>, pass: Pass): Promise<ReadChange | undefined> {
  const bytes = Buffer.from(text)
  if (bytes.length > pass.maxBytes) throw tooManyBytes(pass.maxBytes)
  return pollContent(() => [bytes], pass)
}
