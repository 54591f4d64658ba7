/**
 * Loaded before each test file (test/run.ts): keeps the secrets that a test uses and the output of the processes that it
 * starts, in a folder that the runner reads once the file has ended. A secret in any output fails the file.
 *
 * Secrets are known by themselves: helpers that make one call `secret`, and credentials in the headers of any request
 * that this process sends or receives are noticed.
 */
import type { ChildProcess } from 'node:child_process'
import { subscribe } from 'node:diagnostics_channel'
import { appendFileSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import { join } from 'node:path'
import type { Readable } from 'node:stream'

/** Names the folder to the test process. */
export const FOLDER_VARIABLE = 'PORTICO_TEST_SECRETS'
/** File of the folder that has one secret a line, as JSON; all others are output. */
export const SECRETS_FILE = 'secrets'
/** Shorter ones may stand in a text by chance; what tests make up by hand to be refused is shorter, too. */
export const SHORTEST_SECRET = 12
/** Of each stream; a leak shows early, and some streams are packs of git. */
const MOST_BYTES = 8 * 1024 * 1024

const folder = process.env[FOLDER_VARIABLE]
const known = new Set<string>()

/** Notes a secret that a test uses; gives it back. */
export function secret<Text extends string>(text: Text): Text {
  if (folder === undefined || text.length < SHORTEST_SECRET || known.has(text)) return text
  known.add(text)
  appendFileSync(join(folder, SECRETS_FILE), `${JSON.stringify(text)}\n`)
  return text
}

let streams = 0

/** Makes a function that takes the output of one process, or one log, piece by piece. */
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

/** Sees what a stream reads without taking it from whom it is for. */
function watchStream(name: string, stream: Readable): void {
  const watch = outputWatch(name)
  const push = stream.push.bind(stream)
  stream.push = (chunk: unknown, encoding?: BufferEncoding) => {
    if (chunk instanceof Uint8Array || typeof chunk === 'string') watch(chunk)
    return push(chunk, encoding)
  }
}

/** It repeats the URL that it was given to whoever started it; what becomes of that is output, and is looked at. */
const TELLS_ITS_STARTER = 'git'

function watchProcess(child: ChildProcess): void {
  const name = child.spawnfile?.split('/').at(-1) ?? 'process'
  if (name === TELLS_ITS_STARTER) return
  if (child.stdout) watchStream(`${name}-stdout`, child.stdout)
  if (child.stderr) watchStream(`${name}-stderr`, child.stderr)
}

const CREDENTIALS = new Set(['authorization', 'proxy-authorization', 'cookie'])

/** Notes the credential of a header; of HTTP Basic the password as well (RFC 7617, form-encoded by RFC 6749). */
function noteHeader(name: unknown, value: unknown): void {
  if (typeof name !== 'string' || typeof value !== 'string' || !CREDENTIALS.has(name.toLowerCase())) return
  const [, scheme, credential] = /^(\w+) +(\S+)$/.exec(value) ?? []
  if (credential === undefined) return
  secret(credential)
  // Its last part is the signature of a JWT: of no use without the others, and never to be shown either.
  if (credential.startsWith('eyJ')) secret(credential.split('.')[2] ?? '')
  if (scheme?.toLowerCase() !== 'basic') return
  const password = Buffer.from(credential, 'base64').toString().split(':')[1] ?? ''
  secret(new URLSearchParams(`password=${password}`).get('password') ?? '')
}

function noteSent({ request }: { readonly request: { readonly headers: unknown } }): void {
  const { headers } = request
  const fields = typeof headers === 'string' ? headers.split(/\r\n|: /) : Array.isArray(headers) ? headers : []
  for (let at = 0; at + 1 < fields.length; at += 2) noteHeader(fields[at], fields[at + 1])
}

function noteReceived({ request }: { readonly request: Pick<IncomingMessage, 'headers'> }): void {
  for (const name of CREDENTIALS) noteHeader(name, request.headers[name])
}

if (folder !== undefined) {
  subscribe('child_process', (message) => {
    const { process: child } = message as { readonly process: ChildProcess }
    // Its streams are made a moment later, and before anything can be read.
    process.nextTick(() => watchProcess(child))
  })
  subscribe('undici:request:create', (message) => noteSent(message as Parameters<typeof noteSent>[0]))
  subscribe('http.server.request.start', (message) => noteReceived(message as Parameters<typeof noteReceived>[0]))
}
