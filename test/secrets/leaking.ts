/** Not a test of its own: a test file whose processes and logs leak a secret, as PORTICO_LEAK says (leaks.test.ts). */
import { execFileSync, execSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'uvu'
import { recordLog } from '../support/kept-log.ts'
import { secret } from './watch.ts'

const created = secret(['made', 'by', 'a', 'helper', process.pid].join('-'))
const sent = ['sent', 'in', 'a', 'header', process.pid].join('-')
const posted = ['sent', 'in', 'a', 'form', process.pid].join('-')

const proof = `eyJ.eyJ.${['sent', 'in', 'a', 'proof', process.pid].join('-')}`
const cookie = ['sent', 'in', 'a', 'cookie', process.pid].join('-')
const entered = ['sent', 'in', 'a', 'page', process.pid].join('-')

/** Sends credentials that no helper has registered. */
async function send(): Promise<void> {
  const server = createServer((request, response) => request.resume().on('end', () => response.end()))
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  const headers = { authorization: `Bearer ${sent}`, dpop: proof, cookie: `a=b; session=${cookie}` }
  const body = new URLSearchParams({ grant_type: 'refresh_token', refresh_token: posted, key: entered })
  await (await fetch(`http://127.0.0.1:${port}`, { method: 'POST', headers, body })).text()
  server.close()
  server.closeAllConnections()
}

async function child(text: string): Promise<void> {
  const echo = spawn(process.execPath, ['-e', `process.stderr.write(${JSON.stringify(text)})`])
  echo.stderr.resume()
  await once(echo, 'close')
}

const ways: Readonly<Record<string, () => void | Promise<void>>> = {
  nothing: () => console.log('all is well'),
  printed: () => console.log(`it is ${created}`),
  encoded: () => console.log(`it is ${Buffer.from(created).toString('base64')}`),
  child: () => child(`the child says ${created}`),
  log: () => recordLog().log.info({ what: created }, 'told'),
  waited: () => void execFileSync(process.execPath, ['-p', `'the child says ' + ${JSON.stringify(created)}`]),
  shell: () => void execSync(`echo the child says ${created}`),
  failed: () => void spawnSync(process.execPath, ['-e', `throw 'the child says ' + ${JSON.stringify(created)}`]),
  form: () => console.log(`it is ${posted}`),
  header: () => console.log(`it is ${sent}`),
  proof: () => console.log(`it is ${proof.split('.')[2]}`),
  cookie: () => console.log(`it is ${cookie}`),
  entered: () => console.log(`it is ${entered}`),
}

test('leaks a secret', async () => {
  await send()
  await ways[process.env['PORTICO_LEAK'] ?? 'nothing']?.()
})

test.run()
