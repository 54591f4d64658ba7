/**
 * Measures a console as it runs in a pod, over an API server with 2,000 workloads in another process: the time and size of
 * each page beside the time of the lists that it needs, the requests of tabs, and the memory with ten viewers. Usage:
 * run.ts [--workloads=2000] [--viewers=10] [--entry=dist/portico.js]; that file is of the bundle, which a pod runs
 */
import { type ChildProcess, fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { gzipSync } from 'node:zlib'
import { NODE_FLAGS } from '../../build/node-flags.ts'
import { eventually } from '../../test/support/eventually.ts'
import { temporaryFolder } from '../../test/support/folder.ts'
import { freePort } from '../../test/support/network/free-port.ts'
import { median } from '../percentile.ts'

const { values } = parseArgs({
  options: {
    workloads: { type: 'string', default: '2000' },
    viewers: { type: 'string', default: '10' },
    entry: { type: 'string', default: 'cli/main.ts' },
  },
})
const viewers = Number(values.viewers)
const TIMES = 9
const TABS = 5
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
const api = fork(join(import.meta.dirname, 'api-server.ts'), [values.workloads], { silent: true })
const [line] = await once(api.stdout ?? process.stdin, 'data')
const apiUrl = String(line).trim()
const url = `http://127.0.0.1:${await freePort()}`
const configFile = folder.write(
  'console.yaml',
  `publicUrl: ${url}\nlogin: {token: {}}\nkubernetes: {server: "${apiUrl}"}\nlogLevel: error\n`,
)
const served = spawn(
  process.execPath,
  [...NODE_FLAGS, join(root, values.entry), 'console', '--config', configFile, '--listen', new URL(url).host],
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
/** The number of lists that were asked for so far. */
async function lists(): Promise<number> {
  api.send('lists')
  return Number((await once(api, 'message'))[0])
}

try {
  await eventually('the console serves', isUp)
  console.log(`memory before anybody looks: ${readMemory(served)[0]} MiB`)
  const listTime = await measureTime(TIMES, async () => {
    const list = `${apiUrl}/apis/portico.dev/v1beta1/mcpservers`
    let next: string | undefined = ''
    while (next !== undefined) {
      const { metadata } = (await (await fetch(`${list}?limit=500&continue=${next}`)).json()) as {
        metadata: { continue?: string }
      }
      next = metadata.continue
    }
  })
  console.log(`lists of ${values.workloads} workloads: ${listTime.toFixed(0)} ms`)
  const cold = await measureTime(TIMES, async () => get('/workloads', await logIn(`cold-${Math.random()}`)))
  console.log(`/workloads of somebody new, lists and login included: ${cold.toFixed(0)} ms`)
  const cookie = await logIn('ada')
  for (const path of PAGES) {
    const page = await get(path, cookie)
    const taken = await measureTime(TIMES, () => get(path, cookie))
    console.log(`${path}: ${taken.toFixed(0)} ms, ${(gzipSync(page).length / 1024).toFixed(1)} kB compressed`)
  }
  const tabs = await logIn('tabs')
  const before = await lists()
  await get('/', tabs)
  const ofOne = (await lists()) - before
  const many = await logIn('many-tabs')
  const beforeMany = await lists()
  await Promise.all(Array.from({ length: TABS }, () => get('/', many)))
  console.log(`requests at the API server: one tab ${ofOne}, ${TABS} tabs ${(await lists()) - beforeMany}`)
  const cookies = await Promise.all(Array.from({ length: viewers }, (_, index) => logIn(`viewer-${index}`)))
  for (const own of cookies) for (const path of PAGES) await get(path, own)
  const [now, most] = readMemory(served)
  console.log(`memory with ${viewers} viewers: ${now} MiB, at most ${most} MiB`)
} finally {
  served.kill()
  api.kill()
  folder[Symbol.dispose]()
}
