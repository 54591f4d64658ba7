/** The shipped admission webhook, called by a real API server: what kubectl prints, and what happens without it. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { request } from 'node:https'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { connect } from 'node:tls'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { serveAdmission } from '../../../cli/operator/admission.ts'
import { ApiServer } from '../../../operator/cluster/kubernetes/api-server.ts'
import { loadKubeConfig } from '../../../operator/cluster/kubernetes/kube-config.ts'
import { buildPath } from '../../../operator/cluster/kubernetes/resource.ts'
import { recordLog } from '../../support/kept-log.ts'
import { freePort } from '../../support/network/free-port.ts'
import { type InstalledWebhook, installWebhook, WEBHOOK, WEBHOOK_SERVICE } from '../support/admission.ts'
import { kubernetes } from '../support/binary.ts'
import { newCluster } from '../support/cluster.ts'
import { ADMIN_TOKEN } from '../support/control-plane.ts'
import { gateway, group, type Manifest, manifest, telemetry, yaml } from '../support/manifests.ts'
import { eventually, OPERATOR_USER, operatorKubeconfig, startOperator } from '../support/operator-process.ts'
import { resourceNamed } from '../support/resources.ts'

const NAME = WEBHOOK
const SYSTEM = 'portico-system'
const SECRET = WEBHOOK_SERVICE

const cluster = newCluster()
const { kubectl } = cluster
let webhook: InstalledWebhook

/** Returns kubectl's standard error, which has the warnings. Asynchronous, because some servers run in this process. */
async function runKubectl(args: readonly string[], ...manifests: Manifest[]): Promise<string> {
  const [program, ...leading] = kubernetes()('kubectl')
  const files = manifests.length > 0 ? ['-f', '-'] : []
  const child = spawn(program, [...leading, '--kubeconfig', cluster.plane.kubeconfig, ...args, ...files])
  child.stdin.end(yaml(...manifests))
  child.stdout.resume()
  const [stderr, [code]] = await Promise.all([text(child.stderr), once(child, 'exit')])
  assert.is(code, 0, stderr)
  return stderr
}
const applyManifests = (...manifests: Manifest[]) => runKubectl(['apply'], ...manifests)

/** Returns the warning header of the API server, without storing the object; faster than starting a kubectl. */
const readWarnings = (object: Manifest) =>
  new Promise<string>((resolve, reject) => {
    const path = buildPath(resourceNamed(object.kind), 'default', object.metadata.name)
    const headers = { authorization: `Bearer ${ADMIN_TOKEN}`, 'content-type': 'application/apply-patch+yaml' }
    const options = { method: 'PATCH', headers, rejectUnauthorized: false }
    const url = `${cluster.plane.server}${path}?dryRun=All&fieldManager=kubectl`
    const outgoing = request(url, options, (response) => {
      response.resume()
      if ((response.statusCode ?? 500) < 300) resolve(String(response.headers['warning'] ?? ''))
      else reject(new Error(`${response.statusCode} for ${path}`))
    })
    outgoing.on('error', reject)
    outgoing.end(JSON.stringify(object))
  })
const configuration = () => cluster.read('validatingwebhookconfiguration', NAME)
const secret = (): Record<string, string> => cluster.read('secret', SECRET, SYSTEM).data ?? {}

const server = (name: string, spec: object = {}) =>
  manifest('MCPServer', name, { image: 'a:1', transport: 'streamable-http', ...spec })
const proxy = (name: string, oidc: string) =>
  manifest('MCPRemoteProxy', name, {
    remoteUrl: 'https://mcp.example.com/mcp',
    oidcConfigRef: { name: oidc, audience: 'tools' },
  })

/** Returns the fingerprint of the certificate at this port, or nothing if nobody answers. */
const certificateAt = (at: number) =>
  new Promise<string | undefined>((resolve) => {
    const socket = connect({ host: '127.0.0.1', port: at, rejectUnauthorized: false }, () => {
      resolve(socket.getPeerCertificate().fingerprint256)
      socket.destroy()
    })
    socket.on('error', () => resolve(undefined))
  })

/** Returns why a client that trusts these authorities cannot connect to this port, or nothing if it can. */
const refusal = (at: number, ca: string) =>
  new Promise<string[]>((resolve) => {
    const options = { host: '127.0.0.1', port: at, ca, servername: `${SECRET}.${SYSTEM}.svc` }
    const socket = connect(options, () => {
      resolve([])
      socket.destroy()
    })
    socket.on('error', (error) => resolve([error.message]))
  })

const status = (path: string, body: string) =>
  new Promise<number | undefined>((resolve, reject) => {
    const outgoing = request(
      { host: '127.0.0.1', port: webhook.port, path, method: 'POST', rejectUnauthorized: false },
      (response) => {
        response.resume()
        resolve(response.statusCode)
      },
    )
    outgoing.on('error', reject)
    outgoing.end(body)
  })

/** Waits until the API server uses the new certificate. */
const warns = () =>
  eventually(
    async () => /Warning: /.test(await runKubectl(['apply', '--dry-run=server'], proxy('probe', 'nowhere'))),
    'a warning',
  )

test.before(async () => {
  await cluster.install()
  webhook = await installWebhook(cluster.plane)
  await cluster.startOperator(webhook.options)
})
test.after(() => cluster.stop())

test('an object that refers to a missing one is accepted with a warning, in a dry run too', async () => {
  await warns()
  const crm = proxy('crm', 'corp')
  const warning = /Warning: MCPRemoteProxy "crm": MCPOIDCConfig "corp" is missing\n/
  assert.match(await runKubectl(['apply', '--dry-run=server'], crm), warning)
  assert.not(cluster.exists('mcprp', 'crm'))
  const stderr = await applyManifests(crm)
  assert.match(stderr, warning)
  assert.match(stderr, 'Warning: MCPRemoteProxy "crm" takes effect once that is there\n')
  assert.ok(cluster.exists('mcprp', 'crm'))
  assert.match(
    await runKubectl(['apply'], server('tokens', { secrets: [{ name: 'vault', key: 'k', targetEnvName: 'K' }] })),
    /Secret "vault" is missing/,
  )
})

test('an object that names a provider nobody logs in at is accepted with a warning', async () => {
  const oidc = manifest('MCPOIDCConfig', 'idp', { type: 'inline', inline: { issuer: 'https://idp.example' } })
  const inject = manifest('MCPExternalAuthConfig', 'inject', {
    type: 'upstreamInject',
    upstreamInject: { providerName: 'github' },
  })
  assert.is(await applyManifests(oidc, inject), '')
  const stderr = await applyManifests({
    ...proxy('repo', 'idp'),
    spec: { ...proxy('repo', 'idp').spec, externalAuthConfigRef: { name: 'inject' } },
  })
  assert.match(stderr, /Warning: MCPRemoteProxy "repo": .*"github"/)
  assert.match(
    stderr,
    'Warning: MCPRemoteProxy "repo" does not take effect until that is corrected; the previous version keeps running\n',
  )
})

test('the operator reports the expiry of its certificate and counts its reviews', async () => {
  const { health, metrics } = cluster.operator
  const { admission } = (await (await fetch(`${health}/status`)).json()) as { admission: Record<string, string> }
  assert.equal(Object.keys(admission), ['certificateUntil'])
  const left = Date.parse(admission['certificateUntil'] ?? '') - Date.now()
  assert.ok(left > 80 * 86_400_000, `${left} ms`)
  const counted = await (await fetch(metrics)).text()
  assert.match(
    counted,
    /^portico_operator_admission_reviews_total\{[^}]*kind="MCPRemoteProxy",outcome="warned"[^}]*\} [1-9]/m,
  )
})

test('there is no warning for valid objects, nor for references to objects earlier in the same files', async () => {
  // On a busy machine the operator may see the first objects only after it has looked twice at those that name them.
  let attempts = 0
  await eventually(async () => {
    const name = `together-${attempts++}`
    const files = server(name, { groupRef: { name } })
    const front = gateway(name, name)
    front.spec['groupRef'] = { name }
    return (await applyManifests(telemetry(name), group(name), files, front)) === ''
  }, 'no warning')
  await applyManifests(telemetry('main'), group(), gateway('front', 'main'))
  const vault = {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name: 'vault', namespace: 'default' },
    stringData: { k: 'v' },
  }
  const tokens = server('tokens', { secrets: [{ name: 'vault', key: 'k', targetEnvName: 'K' }] })
  await applyManifests(vault as never)
  await eventually(async () => (await runKubectl(['apply', '--dry-run=server'], tokens)) === '', 'the Secret is known')
  assert.is(await applyManifests(tokens), '')
  const otherKey = server('tokens', { secrets: [{ name: 'vault', key: 'other', targetEnvName: 'K' }] })
  assert.match(await applyManifests(otherKey), /Secret "vault" has no key "other"/)
})

test('deleting a config warns of the objects that use it', async () => {
  await eventually(
    () => cluster.read('mcpotel', 'main').metadata.finalizers?.includes('portico.dev/in-use'),
    'the config is held',
  )
  const stderr = await runKubectl(['delete', '--wait=false', 'mcpotel', 'main'])
  assert.match(stderr, 'Warning: MCPTelemetryConfig "main": still used by VirtualMCPServer "front"\n')
  assert.match(stderr, 'Warning: MCPTelemetryConfig "main" is deleted when no object refers to it any more\n')
  assert.is(await runKubectl(['delete', 'vmcp', 'front']), '')
  await eventually(() => !cluster.exists('mcpotel', 'main'), 'the config is gone')
})

test('applying the installation again removes nothing, and a second operator shares the certificate', async () => {
  const before = { data: secret(), clientConfig: configuration().webhooks[0].clientConfig }
  assert.equal(Object.keys(before.data).sort(), ['ca.crt', 'tls.crt', 'tls.key', 'token'])
  const shipped = readFileSync(join(cluster.plane.directory, 'deploy/admission/admission.yaml'), 'utf8')
  // Everything but the Service and its port, which lead elsewhere here.
  const file = join(cluster.plane.directory, 'again.yaml')
  writeFileSync(
    file,
    shipped
      .split('---\n')
      .filter((one) => !one.includes('\nkind: Service\n'))
      .map((one) =>
        one.replace('port: 443', `port: ${webhook.port}`).replace(/timeoutSeconds: \d+/, 'timeoutSeconds: 30'),
      )
      .join('---\n'),
  )
  kubectl(['apply', '-f', file])
  const other = await freePort()
  const second = await startOperator(operatorKubeconfig(cluster.plane), [
    `--admission=${NAME}`,
    `--admission-listen=127.0.0.1:${other}`,
  ])
  try {
    await eventually(() => /"msg":"reviews objects"/.test(second.log()), 'the second one serves')
    assert.is(await certificateAt(other), await certificateAt(webhook.port))
    assert.equal({ data: secret(), clientConfig: configuration().webhooks[0].clientConfig }, before)
  } finally {
    await second.stop()
  }
})

test('a caller that does not know the path learns nothing, not even with a body of three megabytes', async () => {
  const { service } = configuration().webhooks[0].clientConfig
  const token = Buffer.from(secret()['token'] ?? '', 'base64').toString()
  assert.is(service.path, `/validate/${token}`)
  for (const path of ['/', '/validate', `/validate/${'0'.repeat(64)}`, `${service.path}/`, `${service.path}0`])
    assert.is(await status(path, '{}'), 404, path)
  assert.is(await status(service.path, '{}'), 400)
  assert.is(await status(service.path, ' '.repeat(3 * 1024 * 1024 + 1)), 413)
  assert.not.match(cluster.operator.log(), token)
})

test('objects are accepted while no operator runs', async () => {
  await cluster.operator.stop()
  assert.is(await applyManifests(proxy('unwatched', 'nowhere')), '')
  assert.ok(cluster.exists('mcprp', 'unwatched'))
})

test('the operator may write its own Secret and configuration, and no others', () => {
  const isAllowed = (verb: string, what: string) => {
    const [kind = '', name] = what.split('/')
    return cluster.may(OPERATOR_USER, verb, kind, { namespace: SYSTEM, ...(name === undefined ? {} : { name }) })
  }
  assert.ok(isAllowed('update', `secret/${SECRET}`))
  assert.ok(isAllowed('patch', `validatingwebhookconfiguration/${NAME}`))
  for (const [verb, what] of [
    ['update', 'secret/other'],
    ['create', 'secrets'],
    ['delete', `secret/${SECRET}`],
    ['patch', 'validatingwebhookconfiguration/other'],
    ['create', 'validatingwebhookconfigurations'],
    ['list', 'validatingwebhookconfigurations'],
  ] as const)
    assert.not(isAllowed(verb, what), `${verb} ${what}`)
})

test('two operators fill an empty Secret once and renew an expiring certificate while every request is answered', async () => {
  cluster.patch('secret', SECRET, [{ op: 'remove', path: '/data' }], { namespace: SYSTEM, type: 'json' })
  const times = { lifetime: 3_600_000, settle: 10_000, check: 100, retry: 100 }
  const config = loadKubeConfig(operatorKubeconfig(cluster.plane))
  const { log, lines } = recordLog()
  const reviewer = {
    async review(body: unknown) {
      const { request } = body as { request: { uid: string } }
      const response = { uid: request.uid, allowed: true, warnings: ['seen'] } as const
      return { apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', response } as const
    },
  }
  const isSeen = async () => (await readWarnings(group('probe'))).includes('"seen"')
  // The fake clock advances in steps, so that the machine's speed does not decide what happens between two looks.
  let clock = Date.now()
  const readClock = () => clock
  const ports = [webhook.port, await freePort()] as const
  const replicas = ports.map((at) =>
    serveAdmission({
      api: new ApiServer(config, 'test'),
      reviewer,
      group: 'portico.dev',
      namespace: SYSTEM,
      configuration: NAME,
      address: `127.0.0.1:${at}`,
      log,
      times,
      now: readClock,
    }),
  )
  try {
    await eventually(async () => (await Promise.all(ports.map(certificateAt))).every(Boolean), 'both serve')
    const [first, other] = await Promise.all(ports.map(certificateAt))
    assert.is(first, other, 'the same')
    assert.is(lines.filter(({ msg }) => /new certificate/.test(String(msg))).length, 1)
    await eventually(isSeen, 'the new authority is trusted')
    clock += times.lifetime * 0.7
    const refused: unknown[] = []
    const readState = async () => {
      // A reader may have read the configuration a moment ago.
      const trust = Buffer.from(configuration().webhooks[0].clientConfig.caBundle, 'base64').toString()
      for (const at of ports) refused.push(...(await refusal(at, trust)))
      if (!(await isSeen())) refused.push('without a warning')
      return { trusted: trust.split('BEGIN').length - 1, served: await Promise.all(ports.map(certificateAt)) }
    }
    await eventually(async () => (await readState()).trusted === 2, 'the next one is trusted')
    // The API server needs a moment to notice it.
    const settledAt = performance.now() + times.settle
    await eventually(async () => {
      assert.equal((await readState()).served, [first, first], 'the first one is served until it has')
      return performance.now() > settledAt
    }, 'it has')
    clock += times.settle
    await eventually(async () => !(await readState()).served.includes(first), 'both serve the next one')
    assert.equal(refused, [])
    assert.ok(secret()['previous-tls.crt'])
    assert.ok(await isSeen(), 'and the API server trusts it')
  } finally {
    await Promise.all(replicas.map((one) => one.close()))
    await config.closePool()
  }
})

test.run()
