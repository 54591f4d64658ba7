import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type { ValueFinding } from '../../crds/settings/json.ts'

/** A problem in a file. `line` counts from 1. */
export interface Finding extends ValueFinding {
  readonly line?: number
  readonly file?: string
}

/** The findings of a check, in order. */
export type Findings = Generator<Finding, void, undefined>

/** An invalid file with all its findings; the message has one line for each finding. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
  readonly findings: readonly Finding[]

  constructor(findings: readonly Finding[]) {
    super(findings.map(findingLine).join('\n'))
    this.findings = findings
  }
}

/** Formats a finding as `file:line: pointer: message`, without the unknown parts. */
export function findingLine(finding: Finding): string {
  const place = [finding.file, finding.line].filter((part) => part !== undefined).join(':')
  return [place, finding.pointer, finding.message].filter((part) => part !== '').join(': ')
}

export interface Loaded<T> {
  readonly config: T
  readonly hash: string
  /** Absolute path of the file's folder, as given: symbolic links are not resolved. */
  readonly directory: string
}

/** Checks rules across fields of a value that the schema accepts, apart from unknown fields. */
export type Check<T> = (config: T) => readonly Finding[]

interface ConfigText {
  readonly text: string
  readonly hash: string
}

/** Reads the bytes and their hash. Throws a ConfigError if the file can't be read. */
export async function readConfigText(file: string): Promise<ConfigText> {
  try {
    const bytes = await readFile(file)
    return { text: bytes.toString('utf8'), hash: `sha256:${createHash('sha256').update(bytes).digest('hex')}` }
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code
    const message = code === 'ENOENT' ? 'the file does not exist' : `can’t be read (${code})`
    throw new ConfigError([{ pointer: '', message, file }])
  }
}

/** Returns the value of a JSON object's text, else undefined: 800 kB take 10 ms as JSON and half a second as YAML. */
export function parseJsonObject(text: string): unknown {
  if (!/^\s*\{/.test(text)) return undefined
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
