/**
 * Loaded before each test file (test/run.ts). Writes the secrets that a test uses, and the output of the processes that
 * it starts, to a folder that the runner reads after the file has ended. A secret in any output fails the file.
 *
 * Helpers that make a secret register it by calling `secret`. Credentials in the headers and forms of any request that
 * this process sends or receives are registered automatically.
 */
import processes, { type ChildProcess } from 'node:child_process'
import { subscribe } from 'node:diagnostics_channel'
import { appendFileSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import { syncBuiltinESMExports } from 'node:module'
import { join } from 'node:path'
import type { Readable } from 'node:stream'

/** Environment variable with the folder, for the test process. */
export const FOLDER_VARIABLE = 'PORTICO_TEST_SECRETS'
/** File in the folder with one secret a line, as JSON; all other files are output. */
export const SECRETS_FILE = 'secrets'
/** Shorter secrets may occur in a text by chance. Made-up secrets that tests expect to be refused are shorter, too. */
export const SHORTEST_SECRET = 12
/** The most bytes of a stream that are kept. A leak shows early, and some streams are packs of git. */
const MOST_BYTES = 8 * 1024 * 1024

const folder = process.env[FOLDER_VARIABLE]
const known = new Set<string>()

/** Registers a secret that a test uses, and returns it. */
export function secret<Text extends string>(text: Text): Text {
  if (folder === undefined || text.length < SHORTEST_SECRET || known.has(text)) return text
  known.add(text)
  appendFileSync(join(folder, SECRETS_FILE), `${JSON.stringify(text)}\n`)
  return text
}

let streams = 0

/** Returns a function that takes the output of one process, or one log, in pieces. */
export function outputWatch(name: string): (piece: string | Uint8Array) => void {
  streams += 1
  const file = folder && join(folder, `${name.replace(/[^\w.-]/g, '_').slice(-60)}-${streams}`)
  let left = MOST_BYTES
  return (piece) => {
    if (file === undefined || left <= 0) return
    left -= piece.length
    appendFileSync(file, piece)
  }
}

/** Copies a stream's data without taking it from its reader. */
function watchStream(stream: Readable, watch: (piece: string | Uint8Array) => void): void {
  const push = stream.push.bind(stream)
  stream.push = (chunk: unknown, encoding?: BufferEncoding) => {
    if (chunk instanceof Uint8Array || typeof chunk === 'string') watch(chunk)
    return push(chunk, encoding)
  }
}

const readProgramName = (file = 'process'): string => file.split('/').at(-1) ?? file

/** Commands that print a secret to their caller. The caller's own output is still searched. */
function tellsItsStarter(name: string, args: readonly string[]): boolean {
  // git repeats the URL that it was given, and kubectl prints a token that was requested. The conformance suite passes
  // its made-up secrets to the client under test, and prints its requests.
  return name === 'git' || / create token |conformance\S* client /.test(args.join(' '))
}

function watchProcess({ spawnfile, spawnargs, stdout, stderr }: ChildProcess): void {
  const name = readProgramName(spawnfile)
  if (tellsItsStarter(name, spawnargs ?? [])) return
  if (stdout) watchStream(stdout, outputWatch(`${name}-stdout`))
  if (stderr) watchStream(stderr, outputWatch(`${name}-stderr`))
}

type Output = { readonly stdout?: unknown; readonly stderr?: unknown }

function keepOutput(file: string, args: readonly string[], { stdout, stderr }: Output): void {
  const name = readProgramName(file)
  if (tellsItsStarter(name, args)) return
  for (const [from, text] of Object.entries({ stdout, stderr }))
    if ((typeof text === 'string' || text instanceof Uint8Array) && text.length > 0)
      outputWatch(`${name}-${from}`)(text)
}

/** The synchronous calls, which publish no event on the diagnostics channel. */
function watchWaitedFor(): void {
  const { spawnSync, execFileSync, execSync } = processes
  const argsIn = (args: readonly unknown[]) => (Array.isArray(args[0]) ? (args[0] as string[]) : [])
  const replaced = {
    spawnSync(file: string, ...args: readonly unknown[]) {
      const result = Reflect.apply(spawnSync, processes, [file, ...args]) as Output
      keepOutput(file, argsIn(args), result)
      return result
    },
    execFileSync: (file: string, ...args: readonly unknown[]) =>
      runKeepingOutput(file, argsIn(args), () => Reflect.apply(execFileSync, processes, [file, ...args])),
    execSync: (command: string, ...args: readonly unknown[]) =>
      runKeepingOutput('sh', [command], () => Reflect.apply(execSync, processes, [command, ...args])),
  }
  Object.assign(processes, replaced)
  syncBuiltinESMExports()
}

function runKeepingOutput(file: string, args: readonly string[], run: () => unknown): unknown {
  try {
    const stdout = run()
    keepOutput(file, args, { stdout })
    return stdout
  } catch (error) {
    keepOutput(file, args, error as Output)
    throw error
  }
}

const CREDENTIALS = new Set(['authorization', 'proxy-authorization', 'cookie', 'dpop'])

/** Registers a credential. */
function noteCredential(credential: string): void {
  secret(credential)
  // Its last part is the signature of a JWT, which is useless without the others but must not be printed either.
  if (credential.startsWith('eyJ')) secret(credential.split('.')[2] ?? '')
}

/** Registers the credential of a header, and the password of HTTP Basic (RFC 7617, form-encoded by RFC 6749). */
function noteHeader(name: unknown, value: unknown): void {
  if (typeof name !== 'string' || typeof value !== 'string' || !CREDENTIALS.has(name.toLowerCase())) return
  const kind = name.toLowerCase()
  if (kind === 'dpop') noteCredential(value)
  if (kind === 'cookie') for (const pair of value.split('; ')) noteCredential(pair.slice(pair.indexOf('=') + 1))
  if (kind === 'dpop' || kind === 'cookie') return
  const [, scheme, credential] = /^(\w+) +(\S+)$/.exec(value) ?? []
  if (credential === undefined) return
  noteCredential(credential)
  if (scheme?.toLowerCase() !== 'basic') return
  const password = Buffer.from(credential, 'base64').toString().split(':')[1] ?? ''
  secret(new URLSearchParams(`password=${password}`).get('password') ?? '')
}

/** Form fields with credentials: client authentication, grants, and tokens for exchange or introspection. */
const FIELDS = new Set([
  ...['client_secret', 'client_assertion', 'password', 'code', 'code_verifier', 'refresh_token'],
  ...['subject_token', 'actor_token', 'assertion', 'token'],
  // Fields in which people enter a key of their own or a cluster's token.
  'key',
])
const FORM = 'application/x-www-form-urlencoded'
/** A larger form was not sent to a token endpoint. */
const LARGEST_FORM = 64 * 1024

/**
 * Registers the credentials of a form. Of a form that arrives in pieces, only fields that are complete in one are read.
 */
function noteForm(piece: string | Uint8Array): void {
  if (piece.length > LARGEST_FORM) return
  const text = typeof piece === 'string' ? piece : Buffer.from(piece).toString()
  for (const [name, value] of new URLSearchParams(text)) if (FIELDS.has(name)) secret(value)
}

function noteSentBody({
  request,
  chunk,
}: {
  readonly request: { readonly headers: unknown }
  readonly chunk: unknown
}) {
  if (typeof chunk !== 'string' && !(chunk instanceof Uint8Array)) return
  const { headers } = request
  const text = Array.isArray(headers) ? headers.join() : headers
  if (typeof text === 'string' && text.includes(FORM)) noteForm(chunk)
}

function noteSent({ request }: { readonly request: { readonly headers: unknown } }): void {
  const { headers } = request
  const fields = typeof headers === 'string' ? headers.split(/\r\n|: /) : Array.isArray(headers) ? headers : []
  for (let at = 0; at + 1 < fields.length; at += 2) noteHeader(fields[at], fields[at + 1])
}

function noteReceived({ request }: { readonly request: IncomingMessage }): void {
  for (const name of CREDENTIALS) noteHeader(name, request.headers[name])
  if (request.headers['content-type']?.includes(FORM) === true) watchStream(request, noteForm)
}

if (folder !== undefined) {
  subscribe('child_process', (message) => {
    const { process: child } = message as { readonly process: ChildProcess }
    // Its streams are created a moment later, before anything can be read.
    process.nextTick(() => watchProcess(child))
  })
  watchWaitedFor()
  subscribe('undici:request:bodyChunkSent', (message) => noteSentBody(message as Parameters<typeof noteSentBody>[0]))
  subscribe('undici:request:create', (message) => noteSent(message as Parameters<typeof noteSent>[0]))
  subscribe('http.server.request.start', (message) => noteReceived(message as Parameters<typeof noteReceived>[0]))
}
