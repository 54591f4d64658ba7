/** Checks that kubeconfigs are read as kubectl reads them: a server records each request. */
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import type { IncomingHttpHeaders } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { ApiServer } from '../../../operator/cluster/kubernetes/api-server.ts'
import { loadKubeConfig } from '../../../operator/cluster/kubernetes/kube-config.ts'
import { createAuthority } from '../../support/network/certificates.ts'

const folder = mkdtempSync(join(tmpdir(), 'portico-kubeconfig-'))
const requests: { readonly path: string; readonly headers: IncomingHttpHeaders }[] = []
let status = 200
const authority = await createAuthority()
const server = createServer({ cert: authority.cert, key: authority.key }, (request, response) => {
  requests.push({ path: request.url ?? '', headers: request.headers })
  response.writeHead(status).end('{}')
}).listen(0, '127.0.0.1')
await once(server, 'listening')
const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`
const { KUBECONFIG } = process.env

test.before.each(() => {
  requests.length = 0
  status = 200
})
test.after(async () => {
  server.close()
  await authority.remove()
  rmSync(folder, { recursive: true })
  if (KUBECONFIG === undefined) delete process.env['KUBECONFIG']
  else process.env['KUBECONFIG'] = KUBECONFIG
})

const base64 = (text: string) => Buffer.from(text).toString('base64')
const cluster = (more: object = {}) => ({
  name: 'c',
  cluster: { server: url, 'certificate-authority-data': base64(authority.ca), ...more },
})
const user = (fields: object, name = 'u') => ({ name, user: fields })
const context = (fields: object = {}, name = 'here') => ({ name, context: { cluster: 'c', user: 'u', ...fields } })

/** Writes a kubeconfig into its own folder and returns the path. */
function write(name: string, content: object): string {
  const own = join(folder, name)
  mkdirSync(own, { recursive: true })
  const file = join(own, 'config')
  writeFileSync(file, JSON.stringify({ apiVersion: 'v1', kind: 'Config', ...content }))
  return file
}

const withUser = (name: string, fields: object, more: object = {}) =>
  write(name, {
    clusters: [cluster()],
    users: [user(fields)],
    contexts: [context()],
    'current-context': 'here',
    ...more,
  })

/** Sends two requests and returns the headers of both. */
async function headersBy(file: string | undefined, between: () => void = () => undefined) {
  const config = loadKubeConfig(file)
  const api = new ApiServer(config, 'test')
  await api.request('GET', '/api').catch((error: Error) => error)
  between()
  await api.request('GET', '/api')
  await config.closePool()
  return requests.map(({ headers }) => headers)
}

test('a token file is relative to the kubeconfig, wins over a token, and is read again as it changes', async () => {
  const file = withUser('token-file', { token: 'other', tokenFile: 'secrets/token' })
  const token = join(folder, 'token-file', 'secrets', 'token')
  mkdirSync(join(token, '..'))
  writeFileSync(token, 'one\n')
  const headers = await headersBy(relative(process.cwd(), file), () => writeFileSync(token, 'two\n'))
  assert.equal(
    headers.map(({ authorization }) => authorization),
    ['Bearer one', 'Bearer two'],
  )
})

test('if a token file is missing or empty, the inline token is used; without one an error is reported', async () => {
  const file = withUser('no-token-file', { token: 'other', tokenFile: 'token' })
  const headers = await headersBy(file, () => writeFileSync(join(folder, 'no-token-file', 'token'), ' \n'))
  assert.equal(
    headers.map(({ authorization }) => authorization),
    ['Bearer other', 'Bearer other'],
  )
  const alone = loadKubeConfig(withUser('token-file-alone', { tokenFile: 'token' }))
  const refused = await new ApiServer(alone, 'test').request('GET', '/api').catch((error: Error) => error.message)
  assert.match(String(refused), 'no such file')
  await alone.closePool()
})

test('of several files the first wins each entry and the current context; a missing file is reported and ignored', () => {
  const first = write('first', {
    clusters: [cluster({ 'tls-server-name': 'of-first' })],
    users: [user({ token: 'of-first' })],
  })
  const second = write('second', {
    clusters: [
      { name: 'c', cluster: { server: 'http://never', 'insecure-skip-tls-verify': true } },
      { name: 'odd', cluster: {} },
    ],
    users: [user({ token: 'of-second', username: 'me' }), user({ 'client-certificate': 'me.crt' }, 'more')],
    contexts: [context({ namespace: 'of-second' }), context({ user: 'more' }, 'there')],
    'current-context': 'here',
  })
  const third = write('third', { 'current-context': 'there' })
  process.env['KUBECONFIG'] = ['', join(folder, 'none'), first, second, third, second].join(':')
  const warnings: string[] = []
  const config = loadKubeConfig(undefined, { tell: (text) => warnings.push(text) })
  assert.equal(warnings, [`KUBECONFIG names ${join(folder, 'none')}, which does not exist: it is ignored`])
  assert.is(config.getCurrentContext(), 'here')
  assert.is(config.getContextObject('here')?.namespace, 'of-second')
  assert.is(config.getCurrentCluster()?.server, url)
  assert.is(config.getCurrentCluster()?.tlsServerName, 'of-first')
  assert.is(config.getCurrentUser().token, 'of-first')
  assert.is(config.getCurrentUser().username, undefined)
  assert.is(config.getUser('more')?.certFile, join(folder, 'second', 'me.crt'))
  assert.throws(() => loadKubeConfig(join(folder, 'none')), 'ENOENT')
  process.env['KUBECONFIG'] = join(folder, 'none')
  assert.throws(() => loadKubeConfig(), 'there is no cluster')
})

test('a context can be named where none is current', () => {
  const file = write('no-current', { clusters: [cluster()], users: [user({})], contexts: [context({}, 'there')] })
  assert.throws(() => loadKubeConfig(file), 'there is no cluster')
  assert.is(loadKubeConfig(file, { context: 'there' }).getCurrentCluster()?.server, url)
})

const PLUGIN = `#!/bin/sh
cd "$(dirname "$0")"
echo "$KUBERNETES_EXEC_INFO" > info
echo asked >> count
echo "{\\"apiVersion\\": \\"client.authentication.k8s.io/v1\\", \\"kind\\": \\"ExecCredential\\",
  \\"status\\": {\\"token\\": \\"$TEAM-$1-$(wc -l < count | tr -d ' ')\\"}}"
`

test('a plugin is relative to the kubeconfig, gets the cluster, and runs once, and again if its token is refused', async () => {
  const exec = {
    apiVersion: 'client.authentication.k8s.io/v1',
    command: './bin/plugin',
    args: ['arg'],
    env: [{ name: 'TEAM', value: 'red' }],
    interactiveMode: 'Never',
    provideClusterInfo: true,
  }
  const extension = { name: 'client.authentication.k8s.io/exec', extension: { audience: 'a' } }
  const file = withUser(
    'plugin',
    { exec },
    {
      clusters: [cluster({ 'certificate-authority-data': '', 'certificate-authority': 'ca', extensions: [extension] })],
    },
  )
  const bin = join(folder, 'plugin', 'bin')
  mkdirSync(bin)
  writeFileSync(join(bin, 'plugin'), PLUGIN, { mode: 0o755 })
  writeFileSync(join(folder, 'plugin', 'ca'), authority.ca)
  const tokens = async (between?: () => void) =>
    (await headersBy(file, between)).map(({ authorization }) => authorization)
  assert.equal(await tokens(), ['Bearer red-arg-1', 'Bearer red-arg-1'])
  assert.equal(JSON.parse(readFileSync(join(bin, 'info'), 'utf8')), {
    apiVersion: 'client.authentication.k8s.io/v1',
    kind: 'ExecCredential',
    spec: {
      interactive: false,
      cluster: {
        server: url,
        'certificate-authority-data': base64(authority.ca),
        config: { audience: 'a' },
      },
    },
  })
  requests.length = 0
  status = 401
  assert.equal(await tokens(() => (status = 200)), ['Bearer red-arg-2', 'Bearer red-arg-3'])
})

for (const { name, exec, message } of [
  { name: 'of no known version', exec: { apiVersion: 'client.authentication.k8s.io/v1alpha1' }, message: 'v1alpha1' },
  { name: 'without interactiveMode', exec: {}, message: 'interactiveMode of true must be' },
  {
    name: 'that is not there',
    exec: { command: 'portico-none', interactiveMode: 'Never', installHint: 'get it' },
    message: 'portico-none can’t be started (ENOENT); get it',
  },
  {
    name: 'that fails',
    exec: { command: 'false', interactiveMode: 'Never' },
    message: 'false failed with exit code 1',
  },
  { name: 'that gives nothing', exec: { interactiveMode: 'Never' }, message: 'the output of true is not valid JSON' },
])
  test(`a plugin ${name} is reported`, async () => {
    const file = withUser('bad', {
      exec: { apiVersion: 'client.authentication.k8s.io/v1', command: 'true', ...exec },
    })
    const config = loadKubeConfig(file)
    const error = await new ApiServer(config, 'test').request('GET', '/api').catch((error: Error) => error)
    assert.match((error as Error).message, message)
    assert.equal(requests, [])
  })

test('impersonation headers are sent completely', async () => {
  const file = withUser('as', {
    token: 't',
    as: 'jane',
    'as-uid': '7',
    'as-groups': ['dev', 'ops'],
    'as-user-extra': { scopes: ['one', 'two'] },
  })
  const [headers] = await headersBy(file)
  assert.is(headers?.['impersonate-user'], 'jane')
  assert.is(headers?.['impersonate-uid'], '7')
  assert.is(headers?.['impersonate-group'], 'dev, ops')
  assert.is(headers?.['impersonate-extra-scopes'], 'one, two')
})

test('data win over files, and a context needs no user', async () => {
  const file = write('sundry', {
    clusters: [
      {
        name: 'c',
        cluster: {
          server: url,
          'certificate-authority-data': 'aGk=',
          'certificate-authority': 'gone',
        },
      },
    ],
    users: [user({ 'client-certificate-data': 'aGk=', 'client-certificate': 'gone', 'client-key': 'own.key' })],
    contexts: [context()],
    'current-context': 'here',
  })
  const config = loadKubeConfig(file)
  assert.is(config.getCurrentCluster()?.caFile, undefined)
  const { certFile, keyFile } = config.getCurrentUser()
  assert.equal({ certFile, keyFile }, { certFile: undefined, keyFile: join(folder, 'sundry', 'own.key') })

  const bare = write('bare', {
    clusters: [cluster()],
    contexts: [{ name: 'here', context: { cluster: 'c' } }],
    'current-context': 'here',
  })
  const [headers] = await headersBy(bare)
  assert.is(headers?.authorization, undefined)
})

test.run()
