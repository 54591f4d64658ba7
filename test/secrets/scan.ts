import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { FOLDER_VARIABLE, SECRETS_FILE, SHORTEST_SECRET } from './watch.ts'

/** A secret in an output; says where, and not what. */
export interface Leak {
  readonly output: string
  /** What stands before it, on the same line. */
  readonly before: string
  readonly length: number
}

/** The forms in which a secret may stand in a text. */
function formsOf(secret: string): readonly string[] {
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

const prefixOf = (bytes: Buffer, at: number) => bytes.toString('latin1', at, at + SHORTEST_SECRET)
const pairAt = (bytes: Buffer, at: number) => ((bytes[at] ?? 0) << 8) | (bytes[at + 1] ?? 0)

/** A function that finds secrets in outputs, in time that grows with the output alone. */
export function secretFinder(secrets: Iterable<string>): (name: string, output: Buffer) => readonly Leak[] {
  const byPrefix = new Map<string, Set<string>>()
  const isFirstPair = new Uint8Array(65_536)
  for (const secret of secrets)
    for (const form of formsOf(secret)) {
      const bytes = Buffer.from(form)
      if (bytes.length < SHORTEST_SECRET) continue
      const prefix = prefixOf(bytes, 0)
      isFirstPair[pairAt(bytes, 0)] = 1
      byPrefix.set(prefix, (byPrefix.get(prefix) ?? new Set()).add(bytes.toString('latin1')))
    }
  return (name, output) => {
    const leaks: Leak[] = []
    for (let at = 0; at + SHORTEST_SECRET <= output.length; at++) {
      if (isFirstPair[pairAt(output, at)] === 0) continue
      const forms = byPrefix.get(prefixOf(output, at)) ?? []
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

/** Before the process id of the runner whose it is. */
const FOLDER = 'portico-secrets-'

/** Removes what runners have left that were killed. */
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
    // It is somebody else's.
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/** Where one test file's secrets and the output of its processes are kept while it runs. */
export interface SecretWatch {
  /** For the environment of the test process. */
  readonly env: Readonly<Record<string, string>>
  /** Whether a text holds a secret that the test has used so far. */
  isIn(text: string): boolean
  /** What has leaked into the output of the test process itself, and of those that it started. Ends the watch. */
  leaks(output: string): readonly Leak[]
}

export function watchSecrets(): SecretWatch {
  const folder = mkdtempSync(join(tmpdir(), `${FOLDER}${process.pid}-`))
  return {
    env: { [FOLDER_VARIABLE]: folder },
    isIn: (text) => secretFinder(secretsIn(folder))('', Buffer.from(text)).length > 0,
    leaks(output) {
      const find = secretFinder(secretsIn(folder))
      const kept = readdirSync(folder).filter((name) => name !== SECRETS_FILE)
      const leaks = kept.flatMap((name) => find(name, readFileSync(join(folder, name))))
      rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
      return [...find('its own output', Buffer.from(output)), ...leaks]
    },
  }
}

/** The last line may be cut short: the process may have been killed. */
function secretsIn(folder: string): readonly string[] {
  const file = join(folder, SECRETS_FILE)
  if (!existsSync(file)) return []
  return readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => line.startsWith('"') && line.endsWith('"') && line.length > 1)
    .map((line) => JSON.parse(line) as string)
}

/** One line for each of the first leaks, without the secrets. */
export const leakLines = (leaks: readonly Leak[]): string =>
  leaks
    .slice(0, 5)
    .map(({ output, before, length }) => `a secret of ${length} characters is in ${output}, after ${before}`)
    .join('\n')
