/**
 * Reads kubeconfigs of every form with the real kubectl, the operator and the CLI. A server records where each
 * connects, which CA it trusts and which credential it sends.
 */
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer as createHttp, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { createServer as createHttps } from 'node:https'
import { type AddressInfo, connect } from 'node:net'
import { cpus, tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import type { TLSSocket } from 'node:tls'
import { promisify } from 'node:util'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { readArguments } from '../../../cli/command.ts'
import { clusterOptions, inCluster } from '../../../cli/kubectl/cluster.ts'
import { ApiServer } from '../../../operator/cluster/kubernetes/api-server.ts'
import { loadKubeConfig } from '../../../operator/cluster/kubernetes/kube-config.ts'
import { kubernetes } from '../../cluster/support/binary.ts'
import { type Authority, createAuthority } from '../../support/network/certificates.ts'

const run = promisify(execFile)

const folder = mkdtempSync(join(tmpdir(), 'portico-kubectl-'))
const servers: Server[] = []
const { KUBECONFIG, PATH = '' } = process.env
const environment = { PATH: `${join(folder, 'path')}${delimiter}${PATH}` }
let authority: Authority
/** Another CA, whose client certificates the server requests but nobody trusts. */
let stranger: Authority

/** The facts that a request reveals about its client. */
interface ReceivedRequest {
  readonly at: string
  readonly method: string
  readonly path: string
  readonly authorization: string | undefined
  readonly impersonate: Readonly<Record<string, unknown>>
  /** The digest of the client's certificate. */
  readonly certificate: string | undefined
  /** The server name that the client sent (SNI). */
  readonly name: string | false | undefined
  readonly byProxy: boolean
}

const requests: ReceivedRequest[] = []
/** Local ports of the connections that the proxy has made. */
const proxied = new Set<number | undefined>()
const ports = { https: 0, http: 0, proxy: 0 }

function note(at: string): (request: IncomingMessage, response: ServerResponse) => void {
  return (request, response) => {
    const socket = request.socket as TLSSocket
    const impersonate = Object.entries(request.headers).filter(([header]) => header.startsWith('impersonate-'))
    requests.push({
      at,
      method: request.method ?? '',
      path: (request.url ?? '').replace(/\?.*/, ''),
      authorization: request.headers.authorization,
      impersonate: Object.fromEntries(impersonate),
      certificate: at === 'https' ? socket.getPeerX509Certificate()?.fingerprint256 : undefined,
      name: (socket as { readonly servername?: string | false }).servername,
      byProxy: proxied.has(socket.remotePort),
    })
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end('{"major":"1","minor":"37","gitVersion":"v1.37.0"}')
  }
}

async function listen(server: Server): Promise<number> {
  servers.push(server)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}

test.before(async () => {
  ;[authority, stranger] = await Promise.all([createAuthority(), createAuthority()])
  const { cert, key } = authority
  ports.https = await listen(
    createHttps({ cert, key, requestCert: true, rejectUnauthorized: false }, note('https')) as unknown as Server,
  )
  ports.http = await listen(createHttp(note('http')))
  const proxy = createHttp()
  proxy.on('connect', (request, socket) => {
    const [host = '', port] = (request.url ?? '').split(':')
    const target = connect(Number(port), host, () => {
      proxied.add(target.localPort)
      socket.write('HTTP/1.1 200 OK\r\n\r\n')
      target.pipe(socket).pipe(target)
    })
    for (const end of [socket, target]) end.on('error', () => target.destroy())
  })
  ports.proxy = await listen(proxy)
  mkdirSync(join(folder, 'path'))
  writeFileSync(join(folder, 'path', 'portico-test-plugin'), PLUGIN, { mode: 0o755 })
  process.env['PATH'] = environment.PATH
})
test.after(async () => {
  for (const server of servers) server.close()
  process.env['PATH'] = PATH
  if (KUBECONFIG !== undefined) process.env['KUBECONFIG'] = KUBECONFIG
  rmSync(folder, { recursive: true })
  await Promise.all([authority, stranger].map((one) => one.remove()))
})

type Fields = Readonly<Record<string, unknown>>

/** A kubeconfig and the files beside it. */
interface Form {
  readonly cluster?: Fields
  readonly user?: Fields
  /** Replaces the whole content, as JSON or YAML; several files make a KUBECONFIG list. */
  readonly files?: readonly (object | string)[]
  /** Files beside the kubeconfig, by path. */
  readonly beside?: Readonly<Record<string, string>>
  readonly context?: string
  /** The request that Portico sends although kubectl refuses this form, and the reason. */
  readonly tolerated?: string
  /** True if the address can't have a path, which tells requests apart. */
  readonly isBare?: true
}

const base64 = (text: string) => Buffer.from(text).toString('base64')
const ca = () => ({ 'certificate-authority-data': base64(authority.ca) })
const secure = (at: string) => ({ server: `https://127.0.0.1:${ports.https}/${at}`, ...ca() })
const plain = (at: string) => ({ server: `http://127.0.0.1:${ports.http}/${at}` })
const pair = (one: Authority) => ({
  'client-certificate-data': base64(one.cert),
  'client-key-data': base64(one.key),
})
const buildEntry = (kind: string, name: string, fields: Fields) => ({ name, [kind]: fields })
const content = (cluster: Fields, user: Fields | undefined, more: Fields = {}) => ({
  apiVersion: 'v1',
  kind: 'Config',
  clusters: [buildEntry('cluster', 'c', cluster)],
  users: user === undefined ? [] : [buildEntry('user', 'u', user)],
  contexts: [buildEntry('context', 'here', { cluster: 'c', ...(user === undefined ? {} : { user: 'u' }) })],
  'current-context': 'here',
  ...more,
})

const PLUGIN = `#!/bin/sh
echo "{\\"apiVersion\\": \\"client.authentication.k8s.io/v1\\", \\"kind\\": \\"ExecCredential\\",
  \\"status\\": {\\"token\\": \\"$TEAM-$1-$(echo "$KUBERNETES_EXEC_INFO" | grep -c '"audience":"a"')\\"}}"
`
const exec = (more: Fields = {}) => ({
  exec: {
    apiVersion: 'client.authentication.k8s.io/v1',
    command: './bin/plugin',
    args: ['arg'],
    env: [{ name: 'TEAM', value: 'red' }],
    interactiveMode: 'Never',
    ...more,
  },
})
const extensions = [{ name: 'client.authentication.k8s.io/exec', extension: { audience: 'a' } }]
const plugin = { 'bin/plugin': PLUGIN }
const certificatePlugin = () =>
  `#!/bin/sh\ncat <<'END'\n${JSON.stringify({
    apiVersion: 'client.authentication.k8s.io/v1',
    kind: 'ExecCredential',
    status: { clientCertificateData: authority.cert, clientKeyData: authority.key },
  })}\nEND\n`

const forms: Readonly<Record<string, (at: string) => Form>> = {
  'a token': () => ({ user: { token: 't' } }),
  'a token that is a number': () => ({ user: { token: '0123' } }),
  'a token file beside it': () => ({ user: { tokenFile: 'secrets/token' }, beside: { 'secrets/token': 'of-file\n' } }),
  'a token file and a token': () => ({ user: { token: 't', tokenFile: 'token' }, beside: { token: 'of-file' } }),
  'a missing token file and a token': () => ({ user: { token: 't', tokenFile: 'token' } }),
  'an empty token file and a token': () => ({ user: { token: 't', tokenFile: 'token' }, beside: { token: ' \n' } }),
  'a missing token file': () => ({ user: { tokenFile: 'token' } }),
  'a name and a password': () => ({ user: { username: 'me', password: 'p:w' } }),
  'a token, a name and a password': () => ({ user: { token: 't', username: 'me', password: 'pw' } }),
  'files of a certificate and its key': () => ({
    user: { 'client-certificate': 'me.crt', 'client-key': './keys/me.key' },
    beside: { 'me.crt': authority.cert, 'keys/me.key': authority.key },
  }),
  'data of a certificate and its key': () => ({ user: pair(authority) }),
  'data and files of a certificate': () => ({
    user: { ...pair(authority), 'client-certificate': 'gone', 'client-key': 'gone' },
    tolerated: 'data win',
  }),
  'data of one and the file of the other': () => ({
    user: { 'client-certificate-data': base64(authority.cert), 'client-key': 'me.key' },
    beside: { 'me.key': authority.key },
  }),
  'a certificate without its key': () => ({ user: { 'client-certificate-data': base64(authority.cert) } }),
  'a certificate and a token': () => ({ user: { ...pair(authority), token: 't' } }),
  'a certificate of another authority': () => ({ user: pair(stranger) }),
  'a plugin beside it': () => ({ user: exec(), beside: plugin }),
  'a plugin that is told of the cluster': (at) => ({
    cluster: { ...secure(at), extensions },
    user: exec({ provideClusterInfo: true }),
    beside: plugin,
  }),
  'a plugin in PATH': () => ({ user: exec({ command: 'portico-test-plugin', args: ['path'] }) }),
  'a plugin that gives a certificate': () => ({ user: exec(), beside: { 'bin/plugin': certificatePlugin() } }),
  'a plugin and a token': () => ({ user: { token: 't', ...exec() }, beside: plugin }),
  'a plugin without interactiveMode': () => ({ user: exec({ interactiveMode: undefined }), beside: plugin }),
  'a plugin of an old version': () => ({
    user: exec({ apiVersion: 'client.authentication.k8s.io/v1alpha1' }),
    beside: plugin,
  }),
  'a plugin that is not there': () => ({ user: exec() }),
  'somebody else, completely': () => ({
    user: {
      token: 't',
      as: 'jane',
      'as-uid': '7',
      'as-groups': ['dev', 'ops'],
      'as-user-extra': { 'acme.com/scope': ['one', 'two'] },
    },
  }),
  'a file of the CA': (at) => ({
    cluster: { server: secure(at).server, 'certificate-authority': 'ca.crt' },
    user: { token: 't' },
    beside: { 'ca.crt': authority.ca },
  }),
  'a CA in data and as a file': (at) => ({
    cluster: { ...secure(at), 'certificate-authority': 'gone' },
    tolerated: 'data win',
  }),
  'the CA of others': (at) => ({ cluster: { ...secure(at), 'certificate-authority-data': base64(stranger.ca) } }),
  'no CA': (at) => ({ cluster: { server: secure(at).server }, user: { token: 't' } }),
  'no CA, and no check': (at) => ({
    cluster: { server: secure(at).server, 'insecure-skip-tls-verify': true },
    user: { token: 't' },
  }),
  'a CA, and no check': (at) => ({ cluster: { ...secure(at), 'insecure-skip-tls-verify': true } }),
  'a CA that is none': (at) => ({ cluster: { ...secure(at), 'certificate-authority-data': base64('hi') } }),
  'another name of the server': (at) => ({ cluster: { ...secure(at), 'tls-server-name': 'localhost' } }),
  'another name, which is not the server’s': (at) => ({ cluster: { ...secure(at), 'tls-server-name': 'kubernetes' } }),
  'a key without its certificate': () => ({ user: { 'client-key-data': base64(authority.key) } }),
  'a certificate and a key that is not there': () => ({
    user: { 'client-certificate-data': base64(authority.cert), 'client-key': 'gone' },
  }),
  'a name and a password, without TLS': (at) => ({ cluster: plain(at), user: { username: 'me', password: 'pw' } }),
  'somebody else, without TLS': (at) => ({ cluster: plain(at), user: { as: 'jane', 'as-groups': ['dev'] } }),
  'a plugin, without TLS': (at) => ({ cluster: plain(at), user: exec(), beside: plugin }),
  'no check, without TLS': (at) => ({
    cluster: { ...plain(at), 'insecure-skip-tls-verify': true },
    user: { token: 't' },
  }),
  'a server without TLS': (at) => ({ cluster: plain(at), user: { token: 't' } }),
  'a server without a scheme': (at) => ({
    cluster: { ...secure(at), server: `127.0.0.1:${ports.https}` },
    isBare: true,
  }),
  'a CA and a server without a scheme or TLS': (at) => ({
    cluster: { ...secure(at), server: `127.0.0.1:${ports.http}` },
    isBare: true,
  }),
  'a server without a scheme and a CA': () => ({ cluster: { server: `127.0.0.1:${ports.http}` }, isBare: true }),
  'a server with a path': (at) => ({ cluster: { ...secure(at), server: `${secure(at).server}/clusters/a/` } }),
  'a server by its name': (at) => ({ cluster: { ...secure(at), server: `https://localhost:${ports.https}/${at}` } }),
  'a proxy': (at) => ({
    cluster: { ...secure(at), 'proxy-url': `http://127.0.0.1:${ports.proxy}` },
    user: { token: 't' },
  }),
  'no user': (at) => ({
    files: [content(secure(at), undefined)],
    tolerated: 'kubectl asks for a name and a password',
  }),
  'a user who is not there': (at) => ({ files: [content(secure(at), { token: 't' }, { users: [] })] }),
  'a context that is named': (at) => ({
    files: [content(secure(at), { token: 't' }, { 'current-context': 'none' })],
    context: 'here',
  }),
  'a context that is not there': (at) => ({ files: [content(secure(at), { token: 't' })], context: 'there' }),
  'no current context': (at) => ({ files: [content(plain(at), { token: 't' }, { 'current-context': '' })] }),
  'a list of files, of which one is missing': (at) => ({
    files: [
      'missing',
      content(secure(at), { token: 'first' }, { contexts: [], 'current-context': '' }),
      content(plain(at), { token: 'second' }),
    ],
  }),
  'a list of files that name the same user otherwise': (at) => ({
    files: [content(secure(at), { token: 'first' }), content(plain(at), { username: 'me', password: 'pw' })],
  }),
  'YAML with anchors, and data in lines': (at) => ({
    files: [
      `apiVersion: v1
kind: Config
clusters:
- name: c
  cluster: &cluster
    server: https://127.0.0.1:${ports.https}/${at}
    certificate-authority-data: |
      ${base64(authority.ca)
        .match(/.{1,60}/g)
        ?.join('\n      ')}
- name: d
  cluster: *cluster
users: [{name: u, user: {token: "t"}}]
contexts: [{name: here, context: {cluster: d, user: u}}]
current-context: here
`,
    ],
  }),
}

/** Writes a form, each file into its own folder, and returns the value of KUBECONFIG or --kubeconfig. */
function write(name: string, at: string, { cluster = secure(at), user, files, beside = {} }: Form): string {
  const contents = files ?? [content(cluster, user ?? { token: 't' })]
  return contents
    .map((one, at) => {
      const own = join(folder, name.replaceAll(/\W+/g, '-'), String(at))
      mkdirSync(own, { recursive: true })
      const file = join(own, 'config')
      if (one !== 'missing') writeFileSync(file, typeof one === 'string' ? one : JSON.stringify(one))
      for (const [path, text] of Object.entries(beside)) {
        mkdirSync(join(own, path, '..'), { recursive: true })
        writeFileSync(join(own, path), text, { mode: 0o755 })
      }
      return file
    })
    .join(delimiter)
}

type Reader = (config: string, form: Form) => Promise<unknown>

/** The ways of reading a kubeconfig; each requests /version. */
const readers: Readonly<Record<string, Reader>> = {
  async operator(config, { files, context }) {
    const read = loadKubeConfig(files === undefined ? config : undefined, { context })
    try {
      await new ApiServer(read, 'test').request('GET', '/version')
    } finally {
      await read.closePool()
    }
  },
  async cli(config, { files, context }) {
    const named = files === undefined ? [`--kubeconfig=${config}`] : []
    const command = { name: 'test', synopsis: '', about: '', options: clusterOptions, run: async () => 0 }
    const args = readArguments(command, [...named, ...(context === undefined ? [] : [`--context=${context}`])])
    if (args === 'help') throw new Error('help')
    const io = { env: {}, err: () => undefined } as unknown as Parameters<typeof inCluster>[1]
    await inCluster(args, io, ({ api }) => api.request('GET', '/version'))
  },
}

/** Returns what reached the server through the kubeconfig whose address has this path, or that nothing did. */
async function outcome(at: string, { isBare }: Form, ask: () => Promise<unknown>): Promise<unknown> {
  const isDone = await ask().then(
    () => true,
    () => false,
  )
  const prefix = isBare === true ? '' : `/${at}`
  const index = requests.findIndex(({ path }) => path.startsWith(isBare === true ? '/version' : `${prefix}/`))
  const [found] = index === -1 ? [] : requests.splice(index, 1)
  return isDone && found !== undefined ? { ...found, path: found.path.slice(prefix.length) } : 'refused'
}

const names = Object.keys(forms)
/** The results of kubectl, one process for each form and as many at once as there are cores. */
const judged = new Map<string, Promise<unknown>>()
/** Settles after kubectl’s requests without a path of their own, which run one after another: they look alike. */
let bare: Promise<unknown> = Promise.resolve()

test.before(() => {
  const [program, ...leading] = kubernetes(['kubectl'])('kubectl')
  let last: Promise<unknown>[] = cpus().map(() => Promise.resolve())
  for (const [index, name] of names.entries()) {
    const at = `kubectl-${index}`
    const form = (forms[name] as (at: string) => Form)(at)
    const config = write(at, at, form)
    const args = [
      ...[...leading, 'version', '--output=json', `--cache-dir=${join(folder, 'cache')}`],
      ...(form.files === undefined ? [`--kubeconfig=${config}`] : []),
      ...(form.context === undefined ? [] : [`--context=${form.context}`]),
    ]
    const env = { ...environment, HOME: folder, ...(form.files === undefined ? {} : { KUBECONFIG: config }) }
    const [before, ...others] = last as [Promise<unknown>, ...Promise<unknown>[]]
    const mine = Promise.all([before, form.isBare === true && bare]).then(() =>
      outcome(at, form, () => {
        const ran = run(program, args, { env })
        // Without a credential kubectl asks for a name and a password.
        ran.child.stdin?.end()
        return ran
      }),
    )
    judged.set(name, mine)
    if (form.isBare === true) bare = mine
    last = [...others, mine]
  }
})

for (const [index, name] of names.entries())
  test(`as kubectl: ${name}`, async () => {
    const expected = await judged.get(name)
    for (const [way, read] of Object.entries(readers)) {
      const at = `${way}-${index}`
      const form = (forms[name] as (at: string) => Form)(at)
      if (form.isBare === true) await bare
      const config = write(at, at, form)
      if (form.files !== undefined) process.env['KUBECONFIG'] = config
      const result = await outcome(at, form, () => read(config, form))
      delete process.env['KUBECONFIG']
      if (form.tolerated === undefined) assert.equal(result, expected, way)
      else {
        assert.is(expected, 'refused')
        assert.equal((result as ReceivedRequest).at, 'https', form.tolerated)
      }
    }
  })

test.run()
