/**
 * Measures a console as it runs in a pod, over an API server with 2,000 workloads in another process: the time and size of
 * each page beside the time of the lists that it needs, the requests of tabs, and the memory with ten viewers. Usage:
 * run.ts [--workloads=2000] [--viewers=10] [--entry=dist/portico.js] [--real] [--rounds=12]
 * [--node-options="FLAGS"]. That file is of the bundle, which a pod runs. `--real`: a control plane with these
 * workloads, not a stand-in. In each round somebody new looks; `--real` has people for 50 rounds.
 */
import { type ChildProcess, fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { parseArgs } from 'node:util'
import { gzipSync } from 'node:zlib'
import { Agent, request } from 'undici'
import { NODE_FLAGS } from '../../build/node-flags.ts'
import { kinds } from '../../crds/index.ts'
import { eventually } from '../../test/support/eventually.ts'
import { temporaryFolder } from '../../test/support/folder.ts'
import { freePort } from '../../test/support/network/free-port.ts'
import { estimate, withError } from '../gateway/estimate.ts'
import { median } from '../percentile.ts'

const { values } = parseArgs({
  options: {
    workloads: { type: 'string', default: '2000' },
    viewers: { type: 'string', default: '10' },
    entry: { type: 'string', default: 'cli/main.ts' },
    real: { type: 'boolean', default: false },
    rounds: { type: 'string', default: '12' },
    'node-options': { type: 'string', default: '' },
  },
})
const viewers = Number(values.viewers)
const TIMES = 9
const TABS = 5
const plurals = Object.values(kinds).map(({ plural }) => plural)
const root = join(import.meta.dirname, '../..')
const PAGES = [
  '/',
  '/workloads',
  '/workloads?cursor=1900',
  '/workloads?q=server-47',
  '/map',
  '/access',
  '/changes',
  '/usage',
  '/catalog',
  '/ns/team-7/mcpserver/server-47',
  '/ns/team-7/mcpserver/server-47/connect',
  '/ns/team-7/mcpserver/server-47/yaml',
]

/** Resident memory of a process in MiB, now and at most. */
function readMemory({ pid }: ChildProcess): readonly [now: number, most: number] {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  const readMebibytes = (name: string) => Math.round(Number(new RegExp(`${name}:\\s+(\\d+)`).exec(status)?.[1]) / 1024)
  return [readMebibytes('VmRSS'), readMebibytes('VmHWM')]
}

async function measureTime(times: number, work: () => Promise<unknown>): Promise<number> {
  const taken: number[] = []
  for (let count = 0; count < times; count++) {
    const before = performance.now()
    await work()
    taken.push(performance.now() - before)
  }
  return median(taken)
}

const folder = temporaryFolder()
const api = fork(join(import.meta.dirname, 'api-server.ts'), [values.workloads, ...(values.real ? ['--real'] : [])], {
  stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
})
const [line] = await once(createInterface(api.stdout as Readable), 'line')
const { url: apiUrl, caFile, tokens } = JSON.parse(line) as { url: string; caFile?: string; tokens?: string[] }
const ca = caFile === undefined ? undefined : readFileSync(caFile, 'utf8')
let named = 0
/** Returns a token of somebody new. */
const newToken = () => (tokens === undefined ? `viewer-${named++}` : (tokens[named++] as string))
const url = `http://127.0.0.1:${await freePort()}`
const configFile = folder.write(
  'console.yaml',
  `publicUrl: ${url}\nlogin: {token: {}}\nkubernetes: {server: "${apiUrl}"${caFile ? `, caFile: ${caFile}` : ''}}\nlogLevel: error\n`,
)
const served = spawn(
  process.execPath,
  [
    ...NODE_FLAGS,
    ...values['node-options'].split(' ').filter(Boolean),
    join(root, values.entry),
    'console',
    '--config',
    configFile,
    '--listen',
    new URL(url).host,
  ],
  { stdio: ['ignore', 'inherit', 'inherit'] },
)
const isUp = () =>
  fetch(`${url}/readyz`).then(
    ({ ok }) => ok,
    () => false,
  )

async function logIn(token: string): Promise<string> {
  const body = new URLSearchParams({ token, to: '/' })
  const answer = await fetch(`${url}/login`, { method: 'POST', headers: { origin: url }, body, redirect: 'manual' })
  const cookies = answer.headers.getSetCookie().filter((one) => !one.includes('Max-Age=0'))
  return cookies.map((one) => one.split(';')[0]).join('; ')
}
async function get(path: string, cookie: string): Promise<string> {
  const answer = await fetch(url + path, { headers: { cookie } })
  if (answer.status !== 200) throw new Error(`${path}: HTTP ${answer.status}`)
  return answer.text()
}
/** Lists all kinds as the console does: side by side, in pages of 500. */
async function listAll(dispatcher: Agent, token: string): Promise<void> {
  const headers = { authorization: `Bearer ${token}` }
  await Promise.all(
    plurals.map(async (plural) => {
      let next: string | undefined = ''
      while (next !== undefined) {
        const list = `${apiUrl}/apis/portico.dev/v1beta1/${plural}?limit=500&continue=${next}`
        const { body } = await request(list, { dispatcher, headers })
        const { metadata } = (await body.json()) as { metadata: { continue?: string } }
        next = metadata.continue || undefined
      }
    }),
  )
}
/** The number of lists that were asked for so far. */
async function countLists(): Promise<number> {
  api.send('lists')
  return Number((await once(api, 'message'))[0])
}

try {
  await eventually('the console serves', isUp)
  console.log(`memory before anybody looks: ${readMemory(served)[0]} MiB`)
  const pool = new Agent({ connect: { ca }, connections: plurals.length })
  const taken = { lists: [] as number[], first: [] as number[], workloads: [] as number[], map: [] as number[] }
  for (let round = 0; round < Number(values.rounds); round++) {
    const token = newToken()
    taken.lists.push(await measureTime(1, () => listAll(pool, token)))
    const own = await logIn(token)
    taken.first.push(await measureTime(1, () => get('/', own)))
    taken.workloads.push(await measureTime(1, () => get('/workloads', own)))
    taken.map.push(await measureTime(1, () => get('/map', own)))
  }
  await pool.close()
  const lists = median(taken.lists)
  const describe = (times: readonly number[]) => {
    const ratio = estimate(times.map((time, round) => time / (taken.lists[round] as number)))
    return `${median(times).toFixed(1)} ms, ${withError(ratio.median, ratio.error, 3)} of the lists`
  }
  console.log(`lists of ${values.workloads} workloads, with the token of each: ${lists.toFixed(0)} ms`)
  console.log(`first page of somebody new, lists included: ${describe(taken.first)} (bar 1.5)`)
  console.log(`then /workloads: ${describe(taken.workloads)}`)
  console.log(`then /map: ${describe(taken.map)} (bar 0.1)`)
  const cookie = await logIn(newToken())
  for (const path of PAGES) {
    const page = await get(path, cookie)
    const taken = await measureTime(TIMES, () => get(path, cookie))
    console.log(`${path}: ${taken.toFixed(0)} ms, ${(gzipSync(page).length / 1024).toFixed(1)} kB compressed`)
  }
  const tabs = await logIn(newToken())
  const before = await countLists()
  await get('/', tabs)
  const ofOne = (await countLists()) - before
  const many = await logIn(newToken())
  const beforeMany = await countLists()
  await Promise.all(Array.from({ length: TABS }, () => get('/', many)))
  console.log(`requests at the API server: one tab ${ofOne}, ${TABS} tabs ${(await countLists()) - beforeMany}`)
  const cookies = await Promise.all(Array.from({ length: viewers }, () => logIn(newToken())))
  for (const own of cookies) for (const path of PAGES) await get(path, own)
  const [now, most] = readMemory(served)
  console.log(`memory with ${viewers} viewers: ${now} MiB, at most ${most} MiB`)
} finally {
  served.kill()
  api.disconnect()
  folder[Symbol.dispose]()
}
