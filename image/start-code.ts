/** The code that V8 makes of what a gateway starts with: image/start.cjs has it used. */
import { fork } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { NODE_FLAGS } from './node-flags.ts'

/** Where image/start.cjs looks for it, in the bundle's folder. */
export const START_CODE = 'gateway.start.code'

const HERE = import.meta.dirname
/** A proxy whose server is not there. */
const CONFIG = `name: p
namespace: default
role: proxy
incomingAuth: {type: anonymous}
backends: [{name: b, url: "http://127.0.0.1:9/mcp"}]
`
/** By then it serves, and has looked for its backend. */
const STARTED = '"msg":"no list of tools"'

/**
 * Starts a gateway from the bundle in `dist`, and gives the code of its `gateway.start`, for the Node that runs this, with
 * NODE_FLAGS. It is not the same bytes each time. Rejects with what the gateway says where none starts.
 */
export async function startCode(dist: string): Promise<Buffer> {
  const folder = mkdtempSync(join(tmpdir(), 'portico-start-'))
  try {
    const config = join(folder, 'gateway.yaml')
    writeFileSync(config, CONFIG)
    const file = join(folder, START_CODE)
    await keepCode(file, dist, config)
    return readFileSync(file)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

function keepCode(file: string, dist: string, config: string): Promise<void> {
  const listeners = ['--listen', '127.0.0.1:0', '--admin-listen', '127.0.0.1:0']
  const child = fork(join(HERE, 'keep-code.cjs'), ['serve', 'gateway', '--config', config, ...listeners], {
    execArgv: [...NODE_FLAGS],
    env: { ...process.env, PORTICO_START: join(dist, 'start.cjs') },
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream?.setEncoding('utf8').on('data', (text: string) => {
      const hadStarted = output.includes(STARTED)
      output += text
      if (!hadStarted && output.includes(STARTED)) child.send(file)
    })
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', (status) => {
      if (status === 0) resolve()
      else reject(new Error(`a gateway from ${dist} did not start: ${output}`))
    })
  })
}
