/**
 * Builds the start-up files of a gateway and an operator: one file each, and V8's compiled code of it, which start.cjs
 * loads. Without them a proxy takes 90 ms and 1.5 MiB more; with Node's compile cache, which belongs to one user while
 * a pod's user may be any, 40 ms and 2 MiB more.
 */
import { fork } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { NO_GC, NOT_FAST, NOT_SMALL } from '../cli/memory.ts'
import type { Chunk } from './commonjs.ts'
import { NODE_FLAGS } from './node-flags.ts'

/** The commands that start from one file, and the sources that are loaded until the command serves or works. */
export const STARTS = {
  // The measured configuration is YAML.
  gateway: ['cli/main.ts', 'cli/serve.ts', 'dataplane/gateway/index.ts', 'dataplane/config/read/yaml.ts'],
  operator: ['cli/main.ts', 'cli/operator/index.ts'],
} as const
export type Started = keyof typeof STARTS

/** Returns the name of the start-up file of a command. */
export const startFile = (started: Started): string => `${started}.start`

/** Returns the name, in the bundle's folder, of the compiled code that start.cjs loads. */
export const codeFile = (started: Started): string => `${startFile(started)}.code`

/**
 * Returns a JavaScript expression: an object with a CommonJS module function for each chunk. Throws an Error if a chunk
 * is not Latin-1, which Node holds as it is read.
 */
export function startText(chunks: readonly Chunk[]): string {
  const functions = chunks.map(({ name, code }) => {
    if (/[^\0-\u00ff]/.test(code)) throw new Error(`${name} has characters beyond Latin-1`)
    return `${JSON.stringify(name)}(exports,require,module,__filename,__dirname){${code}}`
  })
  return `({${functions.join(',\n')}})`
}

const HERE = import.meta.dirname
const NOBODY = '127.0.0.1:0'
const ADMIN = ['--admin-listen', NOBODY]

interface Start {
  readonly text: string
  readonly args: (file: string) => readonly string[]
  /** The output that follows once all its start-up code has run. */
  readonly started: string
  /** The flags that undo those that it has set by then. */
  readonly flagsBack: readonly string[]
}

const starts: Readonly<Record<Started, Start>> = {
  // A proxy whose server is unreachable: it serves, and has tried to reach its backend.
  gateway: {
    text: `name: p
namespace: default
role: proxy
incomingAuth: {type: anonymous}
backends: [{name: b, url: "http://127.0.0.1:9/mcp"}]
`,
    args: (file) => ['serve', 'gateway', '--config', file, '--listen', NOBODY, ...ADMIN],
    started: '"msg":"no list of tools"',
    flagsBack: NOT_FAST,
  },
  // An operator whose API server is unreachable.
  operator: {
    text: `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:9"}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
users: [{name: u, user: {token: t}}]
`,
    args: (file) => ['operator', '--kubeconfig', file, '--health-listen', NOBODY, '--metrics-listen', NOBODY],
    started: '"msg":"watch failed"',
    flagsBack: [...NOT_SMALL, NO_GC],
  },
}

/**
 * Starts a gateway and an operator from `dist`, and returns the compiled code by file name, for this Node with
 * NODE_FLAGS. The bytes differ each time. Rejects with the output of a failed start.
 */
export async function startCodes(dist: string): Promise<ReadonlyMap<string, Buffer>> {
  const folder = mkdtempSync(join(tmpdir(), 'portico-start-'))
  try {
    const codes = new Map<string, Buffer>()
    for (const started of Object.keys(STARTS) as Started[]) {
      const file = join(folder, codeFile(started))
      await keepCode(file, dist, started)
      codes.set(codeFile(started), readFileSync(file))
    }
    return codes
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

function keepCode(file: string, dist: string, name: Started): Promise<void> {
  const { text, args, started, flagsBack } = starts[name]
  const given = `${file}.yaml`
  writeFileSync(given, text)
  const child = fork(join(HERE, 'keep-code.cjs'), [...args(given)], {
    execArgv: [...NODE_FLAGS],
    env: { ...process.env, PORTICO_START: join(dist, 'start.cjs'), PORTICO_FLAGS_BACK: flagsBack.join(' ') },
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream?.setEncoding('utf8').on('data', (piece: string) => {
      const hadStarted = output.includes(started)
      output += piece
      if (!hadStarted && output.includes(started)) child.send(file)
    })
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', (status) => {
      if (status === 0) resolve()
      else reject(new Error(`the ${name} from ${dist} did not start: ${output}`))
    })
  })
}
