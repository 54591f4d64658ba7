import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import type { Parsed } from '../check/long-check.ts'
import { ConfigError } from '../load.ts'

/** The work that a thread does with a text: parse YAML, check a configuration, or match a key with a pattern. */
export type Reader = 'yaml' | 'gateway' | 'registry' | 'key'

export interface ReadCall {
  readonly reader: Reader
  readonly text: string
}

/** build/bundle.ts searches for this spelling; it puts the worker's own bundle in its place. */
const ENTRY = new URL('./worker.ts', import.meta.url)
const HEAP = { maxOldGenerationSizeMb: 256 }
/** In milliseconds. The longest text that fits in a ConfigMap takes one or two seconds. */
const DEADLINE_MS = 60_000
/** The longest text, in characters, that is read in this thread: 20 ms of YAML. */
const LONGEST = 32_768

/** Tells whether a text is too long to be read in the thread that serves requests. */
export const isLong = (text: string): boolean => text.length > LONGEST

/**
 * Reads a text in a thread of its own: a long one takes a second. Rejects with a ConfigError (the first hundred
 * findings).
 */
export async function readAside<T>(
  reader: Reader,
  text: string,
  file?: string,
  deadlineMs: number = DEADLINE_MS,
): Promise<T> {
  const worker = new Worker(ENTRY, { workerData: { reader, text } satisfies ReadCall, resourceLimits: HEAP })
  const refuse = (message: string) =>
    new ConfigError([{ pointer: '', message, ...(file === undefined ? {} : { file }) }])
  let parsed: Parsed<T>
  try {
    ;[parsed] = (await once(worker, 'message', { signal: AbortSignal.timeout(deadlineMs) })) as [Parsed<T>]
  } catch (error) {
    const { name, code, message } = error as NodeJS.ErrnoException
    if (name === 'AbortError') throw refuse(`can’t be read within ${deadlineMs / 1000} seconds: make it smaller`)
    throw refuse(
      code === 'ERR_WORKER_OUT_OF_MEMORY' ? 'can’t be read in 256 MiB: make it smaller' : `can’t be read: ${message}`,
    )
  } finally {
    await worker.terminate()
  }
  if ('value' in parsed) return parsed.value
  throw new ConfigError(parsed.findings.map((finding) => (file === undefined ? finding : { ...finding, file })))
}
