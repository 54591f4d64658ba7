import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { FOLDER_VARIABLE, SECRETS_FILE, SHORTEST_SECRET } from './watch.ts'

/** A secret in an output: its place, but not its value. */
export interface Leak {
  readonly output: string
  /** The text before it on the same line. */
  readonly before: string
  readonly length: number
}

/** Returns the forms in which a secret may appear in a text. */
function listForms(secret: string): readonly string[] {
  const encoded = encodeURIComponent(secret)
  const base64 = Buffer.from(secret).toString('base64')
  return [
    secret,
    encoded,
    encoded.replaceAll('%20', '+'),
    JSON.stringify(secret).slice(1, -1),
    base64.replace(/=+$/, ''),
    Buffer.from(secret).toString('base64url'),
  ]
}

const readPrefix = (bytes: Buffer, at: number) => bytes.toString('latin1', at, at + SHORTEST_SECRET)
const pairAt = (bytes: Buffer, at: number) => ((bytes[at] ?? 0) << 8) | (bytes[at + 1] ?? 0)

/** Returns a function that finds secrets in outputs, in a time that depends only on the size of the output. */
export function secretFinder(secrets: Iterable<string>): (name: string, output: Buffer) => readonly Leak[] {
  const byPrefix = new Map<string, Set<string>>()
  const isFirstPair = new Uint8Array(65_536)
  for (const secret of secrets)
    for (const form of listForms(secret)) {
      const bytes = Buffer.from(form)
      if (bytes.length < SHORTEST_SECRET) continue
      const prefix = readPrefix(bytes, 0)
      isFirstPair[pairAt(bytes, 0)] = 1
      byPrefix.set(prefix, (byPrefix.get(prefix) ?? new Set()).add(bytes.toString('latin1')))
    }
  return (name, output) => {
    const leaks: Leak[] = []
    for (let at = 0; at + SHORTEST_SECRET <= output.length; at++) {
      if (isFirstPair[pairAt(output, at)] === 0) continue
      const forms = byPrefix.get(readPrefix(output, at)) ?? []
      const form = [...forms].find((one) => output.toString('latin1', at, at + one.length) === one)
      if (form === undefined) continue
      const before =
        output
          .toString('utf8', Math.max(0, at - 60), at)
          .split('\n')
          .at(-1) ?? ''
      leaks.push({ output: name, before, length: form.length })
      at += form.length - 1
    }
    return leaks
  }
}

/** Prefix of a folder's name, before the process id of the runner. */
const FOLDER = 'portico-secrets-'

/** Removes the folders of runners that were killed. */
export function removeAbandoned(): void {
  for (const name of readdirSync(tmpdir())) {
    const [, pid] = /^portico-secrets-(\d+)-/.exec(name) ?? []
    if (pid !== undefined && !isAlive(Number(pid))) rmSync(join(tmpdir(), name), { recursive: true, force: true })
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    // The folder belongs to another user.
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/** The secrets of one test file and the output of its processes, which are kept while it runs. */
export interface SecretWatch {
  /** Environment of the test process. */
  readonly env: Readonly<Record<string, string>>
  /** Tells whether a text contains a secret that the test has used so far. */
  isIn(text: string): boolean
  /** Returns the leaks in the output of the test process and of the processes that it started. Ends the watch. */
  leaks(output: string): readonly Leak[]
}

export function watchSecrets(): SecretWatch {
  const folder = mkdtempSync(join(tmpdir(), `${FOLDER}${process.pid}-`))
  return {
    env: { [FOLDER_VARIABLE]: folder },
    isIn: (text) => secretFinder(secretsIn(folder))('', Buffer.from(text)).length > 0,
    leaks(output) {
      const find = secretFinder(secretsIn(folder))
      const names = readdirSync(folder).filter((name) => name !== SECRETS_FILE)
      const leaks = names.flatMap((name) => find(name, readFileSync(join(folder, name))))
      rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
      return [...find('its own output', Buffer.from(output)), ...leaks]
    },
  }
}

/** The last line may be incomplete, because the process may have been killed. */
function secretsIn(folder: string): readonly string[] {
  const file = join(folder, SECRETS_FILE)
  if (!existsSync(file)) return []
  return readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => line.startsWith('"') && line.endsWith('"') && line.length > 1)
    .map((line) => JSON.parse(line) as string)
}

/** Returns one line for each of the first leaks, without the secrets. */
export const leakLines = (leaks: readonly Leak[]): string =>
  leaks
    .slice(0, 5)
    .map(({ output, before, length }) => `a secret of ${length} characters is in ${output}, after ${before}`)
    .join('\n')
