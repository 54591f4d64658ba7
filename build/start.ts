/**
 * What a gateway and an operator start from: one file each, and the code that V8 makes of it. start.cjs has them used. Without
 * them a proxy takes 90 ms and 1.5 MiB more, with Node's compile cache in their place 40 ms and 2 MiB more; that cache is
 * of one user, too, and a pod's may be any.
 */
import { fork } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { NO_GC, NOT_SMALL } from '../cli/memory.ts'
import type { Chunk } from './commonjs.ts'
import { NODE_FLAGS } from './node-flags.ts'

/** What starts from one file, and the sources whose chunks are in it: what is loaded until it serves, or works. */
export const STARTS = {
  // Its configuration is YAML.
  gateway: ['cli/main.ts', 'cli/serve.ts', 'dataplane/gateway/index.ts', 'dataplane/config/read/yaml.ts'],
  operator: ['cli/main.ts', 'cli/operator/index.ts'],
} as const
export type Started = keyof typeof STARTS

/** The file of what starts from one. */
export const startFile = (started: Started): string => `${started}.start`

/** Where start.cjs looks for the code of it, in the bundle's folder. */
export const codeFile = (started: Started): string => `${startFile(started)}.code`

/**
 * A JavaScript expression of an object: a function a chunk, by its name, that takes what Node gives CommonJS modules. It is
 * Latin-1, for Node to hold it as it is read; throws an Error where a chunk isn't.
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
  /** A file that it is given, and what it is called with. */
  readonly text: string
  readonly args: (file: string) => readonly string[]
  /** What it says once all that it starts with has run. */
  readonly started: string
  /** Takes back the flags that it has set by then. */
  readonly flagsBack: readonly string[]
}

const starts: Readonly<Record<Started, Start>> = {
  // A proxy whose server is not there: it serves, and has looked for its backend.
  gateway: {
    text: `name: p
namespace: default
role: proxy
incomingAuth: {type: anonymous}
backends: [{name: b, url: "http://127.0.0.1:9/mcp"}]
`,
    args: (file) => ['serve', 'gateway', '--config', file, '--listen', NOBODY, ...ADMIN],
    started: '"msg":"no list of tools"',
    flagsBack: [],
  },
  // One whose API server is not there.
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
 * Starts a gateway and an operator from the bundle in `dist`, and gives the code of each by the name of its file, for the
 * Node that runs this, with NODE_FLAGS. It is not the same bytes each time. Rejects with what is said where one does not
 * start.
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
