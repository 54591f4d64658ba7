/**
 * Builds the start-up files of a gateway and an operator: one file each, and V8's compiled code of it, which start.cjs
 * loads. Without them a proxy takes 90 ms and 1.5 MiB more; with Node's compile cache, which belongs to one user while
 * a pod's user may be any, 40 ms and 2 MiB more.
 */
import { fork } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { build, type OutputFile, type Plugin } from 'esbuild'
import { NO_GC, NOT_FAST, NOT_SMALL } from '../cli/memory.ts'
import { CHUNK_OPTIONS, withImportMeta } from './commonjs.ts'
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

/** The name of the module that holds all chunks of a start. */
const WHOLE = 'start.js'

/**
 * Returns a JavaScript expression: an object with CommonJS module functions, one for all chunks of a start together and
 * one for each name of them. `chunks`: the chunks as ES modules. In one scope a use of another chunk's export is a use
 * of a variable; through the getters of CommonJS a call of a gateway took 2 % longer, with all features on 3 %. Rejects
 * with an Error if a chunk is not Latin-1, which Node holds as it is read.
 */
export async function startText(chunks: readonly Pick<OutputFile, 'path' | 'text'>[]): Promise<string> {
  const texts = new Map(chunks.map(({ path, text }) => [`./${basename(path)}`, text]))
  const names = [...texts.keys()]
  for (const [name, text] of texts)
    if (/[^\0-\u00ff]/.test(text)) throw new Error(`${name} has characters beyond Latin-1`)
  const inMemory: Plugin = {
    name: 'chunks',
    setup(builder) {
      builder.onResolve({ filter: /.*/ }, ({ path, kind }) =>
        kind === 'import-statement' && texts.has(path) ? { path, namespace: 'chunk' } : { path, external: true },
      )
      builder.onLoad({ filter: /.*/, namespace: 'chunk' }, ({ path }) => ({ contents: texts.get(path) as string }))
    },
  }
  const { outputFiles } = await build({
    stdin: { contents: names.map((name, index) => `export * as c${index} from '${name}'`).join('\n') },
    bundle: true,
    format: 'cjs',
    ...CHUNK_OPTIONS,
    supported: { 'dynamic-import': false },
    write: false,
    logLevel: 'warning',
    plugins: [inMemory],
  })
  const whole = withImportMeta(outputFiles[0]?.text as string)
  const parameters = '(exports,require,module,__filename,__dirname)'
  const modules = [
    `${JSON.stringify(WHOLE)}${parameters}{${whole}}`,
    ...names.map(
      (name, index) => `${JSON.stringify(basename(name))}${parameters}{module.exports=require("./${WHOLE}").c${index}}`,
    ),
  ]
  return `({${modules.join(',\n')}})`
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
