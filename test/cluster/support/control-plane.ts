/**
 * A real Kubernetes control plane as child processes on loopback: etcd, kube-apiserver with RBAC and, unless left out,
 * kube-controller-manager (garbage collection, Deployments). Ready in about five seconds.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { generateKeyPairSync } from 'node:crypto'
import { closeSync, mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { secret } from '../../secrets/watch.ts'
import { freePort } from '../../support/network/free-port.ts'
import { type Admin, createAdmin } from './admin.ts'
import { appendedLines } from './appended-lines.ts'
import { type Component, kubernetes } from './binary.ts'

export interface ControlPlane extends Admin {
  /** Path of an administrator's kubeconfig. */
  readonly kubeconfig: string
  readonly server: string
  readonly directory: string
  /** Runs kubectl as administrator and returns its standard output; throws with its standard error. */
  kubectl(args: readonly string[], options?: { input?: string; kubeconfig?: string }): string
  /** Writes a kubeconfig for a bearer token, for this server or another address (such as a proxy in front of it). */
  kubeconfigFor(name: string, token: string, server?: string): string
  /** Returns every write that the API server has answered, with its user, from the audit log. */
  writes(): readonly AuditedRequest[]
  /** Returns the writes and the reads of `auditReadsOf`; a watch counts when it ends. */
  requests(): readonly AuditedRequest[]
  stopApiServer(signal?: NodeJS.Signals): Promise<void>
  /** Starts the API server with its earlier issuers, or with others. */
  startApiServer(issuers?: readonly string[]): Promise<void>
  /** Ends the controllers. They see changes that are made meanwhile when they are started again. */
  stopControllers(): Promise<void>
  startControllers(): void
  /** Restarts the controllers, which then list everything anew. */
  restartControllers(): Promise<void>
  /** Kills etcd, and starts it again on its data. */
  killEtcd(): Promise<void>
  stop(): Promise<void>
}

/** A request in the audit log. */
export interface AuditedRequest {
  readonly verb: string
  readonly user: string
  readonly resource: string
  readonly subresource: string
  readonly namespace: string
  readonly name: string
  readonly code: number
  readonly at: string
  /** The `User-Agent` of the client. */
  readonly agent: string
}

const WRITES = ['create', 'update', 'patch', 'delete', 'deletecollection']

const auditPolicy = (readers: readonly string[]) => ({
  apiVersion: 'audit.k8s.io/v1',
  kind: 'Policy',
  omitStages: ['RequestReceived', 'ResponseStarted'],
  rules: [
    { level: 'Metadata', verbs: WRITES },
    // An empty list of users would match everybody.
    ...(readers.length > 0 ? [{ level: 'Metadata', users: readers }] : []),
    { level: 'None' },
  ],
})

interface AuditEvent {
  readonly verb: string
  readonly user: { readonly username: string }
  readonly objectRef?: { resource?: string; subresource?: string; namespace?: string; name?: string }
  readonly responseStatus?: { readonly code?: number }
  readonly stageTimestamp: string
  readonly userAgent?: string
}

/** The bearer token of the administrator. */
export const ADMIN_TOKEN = 'administrator'

function auditedRequest(event: AuditEvent): AuditedRequest {
  const { verb, user, objectRef = {}, responseStatus, stageTimestamp, userAgent = '' } = event
  const { resource = '', subresource = '', namespace = '', name = '' } = objectRef
  return {
    verb,
    user: user.username,
    resource,
    subresource,
    namespace,
    name,
    code: responseStatus?.code ?? 0,
    at: stageTimestamp,
    agent: userAgent,
  }
}

async function waitForExit(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  await new Promise((resolve) => child.once('exit', resolve))
}

/** The controllers that make, count and remove what tests look at. All of them would watch every resource. */
const CONTROLLERS = [
  'clusterrole-aggregation',
  'deployment',
  'disruption',
  'endpoints',
  'endpointslice',
  'garbage-collector',
  'namespace',
  'persistentvolumeclaim-protection',
  'replicaset',
  'resourcequota',
  'root-ca-certificate-publisher',
  'serviceaccount',
  'statefulset',
]

/**
 * Makes Go collect garbage a third as often as by default, which took a sixth of the API server's CPU time, and run on
 * one core: a tenth of the time of all went to threads that looked for work.
 */
const GO = { GOGC: '300', GOMAXPROCS: '1' }

/** Milliseconds until a process that was killed or has ended by itself is restarted. */
const RESTART_AFTER = 500

/** Child processes by name, each with its own log and a file `<name>.pid` in the folder. */
export class Processes {
  readonly #component: Component
  readonly #directory: string
  readonly #supervised: boolean
  readonly #running = new Map<string, ChildProcess>()

  /** @param supervised restarts processes that end unasked, as a machine's init does */
  constructor(component: Component, directory: string, supervised = false) {
    this.#component = component
    this.#directory = directory
    this.#supervised = supervised
  }

  start(name: string, args: readonly string[]): void {
    const [program, ...leading] = this.#component(name)
    const log = openSync(join(this.#directory, `${name}.log`), 'a')
    const child = spawn(program, [...leading, ...args], {
      cwd: this.#directory,
      stdio: ['ignore', log, log],
      env: { ...process.env, ...GO },
    })
    closeSync(log)
    this.#running.set(name, child)
    writeFileSync(join(this.#directory, `${name}.pid`), String(child.pid))
    if (!this.#supervised) return
    child.once('exit', () =>
      setTimeout(() => {
        if (this.#running.get(name) === child) this.start(name, args)
      }, RESTART_AFTER).unref(),
    )
  }

  alive(name: string): boolean {
    const child = this.#running.get(name)
    return child !== undefined && child.exitCode === null && child.signalCode === null
  }

  async stop(name: string, signal: NodeJS.Signals): Promise<void> {
    const child = this.#running.get(name)
    if (!child) return
    this.#running.delete(name)
    child.kill(signal)
    const force = setTimeout(() => child.kill('SIGKILL'), 10_000)
    await waitForExit(child)
    clearTimeout(force)
  }
}

export interface ControlPlaneOptions {
  /** Whether those controllers run that tests need (the default), all, or none. */
  readonly controllers?: boolean | 'all'
  /**
   * An address at which pods reach the API server, which then listens on every address; by default on loopback only.
   */
  readonly address?: string
  /** `--service-account-issuer`, in this order: the first signs, and tokens of all are accepted. */
  readonly issuers?: readonly string[]
  /** Users whose reads are audited too. */
  readonly auditReadsOf?: readonly string[]
  /** Restarts components that end unasked. */
  readonly supervised?: boolean
}

/** Starts a control plane, which the caller stops. Its state is in a temporary folder that is removed with it. */
export async function startControlPlane(options: ControlPlaneOptions = {}): Promise<ControlPlane> {
  const component = kubernetes()
  const directory = mkdtempSync(join(tmpdir(), 'portico-control-plane-'))
  const [client, peer, secure, controller] = await Promise.all([freePort(), freePort(), freePort(), freePort()])
  const processes = new Processes(component, directory, options.supervised)
  const server = `https://127.0.0.1:${secure}`

  const keys = generateKeyPairSync('rsa', { modulusLength: 2048 })
  writeFileSync(join(directory, 'sa.key'), keys.privateKey.export({ type: 'pkcs8', format: 'pem' }), { mode: 0o600 })
  writeFileSync(join(directory, 'sa.pub'), keys.publicKey.export({ type: 'spki', format: 'pem' }))
  writeFileSync(join(directory, 'tokens.csv'), `${ADMIN_TOKEN},administrator,administrator,"system:masters"\n`)

  writeFileSync(join(directory, 'audit-policy.json'), JSON.stringify(auditPolicy(options.auditReadsOf ?? [])))

  const newLines = appendedLines(join(directory, 'audit.log'))
  const audited: AuditedRequest[] = []
  const requests = () => {
    for (const line of newLines()) audited.push(auditedRequest(JSON.parse(line)))
    return [...audited]
  }

  const kubeconfigFor = (name: string, token: string, address = server) => {
    const file = join(directory, `${name}.kubeconfig`)
    const config = {
      apiVersion: 'v1',
      kind: 'Config',
      clusters: [{ name: 'c', cluster: { server: address, 'insecure-skip-tls-verify': true } }],
      users: [{ name, user: { token } }],
      contexts: [{ name: 'c', context: { cluster: 'c', user: name } }],
      'current-context': 'c',
    }
    writeFileSync(file, JSON.stringify(config), { mode: 0o600 })
    return file
  }
  const admin = kubeconfigFor('administrator', ADMIN_TOKEN)

  const kubectl: ControlPlane['kubectl'] = (args, call = {}) => {
    const [program, ...leading] = component('kubectl')
    const output = execFileSync(program, [...leading, '--kubeconfig', call.kubeconfig ?? admin, ...args], {
      encoding: 'utf8',
      cwd: directory,
      env: { ...process.env, HOME: directory },
      maxBuffer: 1 << 28,
      ...(call.input === undefined ? { stdio: ['ignore', 'pipe', 'pipe'] } : { input: call.input, stdio: 'pipe' }),
    })
    if (args[0] === 'create' && args[1] === 'token') secret(output.trim())
    return output
  }

  const administrator = createAdmin(server, ADMIN_TOKEN)
  const startApiServer = async (issuers = options.issuers ?? ['https://kubernetes.default.svc']) => {
    processes.start('kube-apiserver', [
      `--etcd-servers=http://127.0.0.1:${client}`,
      `--secure-port=${secure}`,
      ...(options.address === undefined
        ? ['--bind-address=127.0.0.1', '--advertise-address=127.0.0.1', '--endpoint-reconciler-type=none']
        : ['--bind-address=0.0.0.0', `--advertise-address=${options.address}`]),
      '--kubelet-preferred-address-types=InternalIP',
      '--cert-dir=certs',
      ...issuers.map((issuer) => `--service-account-issuer=${issuer}`),
      '--service-account-key-file=sa.pub',
      '--service-account-signing-key-file=sa.key',
      '--service-cluster-ip-range=10.96.0.0/16',
      '--token-auth-file=tokens.csv',
      '--authorization-mode=RBAC',
      '--allow-privileged',
      '--audit-policy-file=audit-policy.json',
      '--audit-log-path=audit.log',
    ])
    const deadline = Date.now() + 180_000
    for (;;) {
      if (administrator.isReady()) return
      if (!processes.alive('kube-apiserver') || Date.now() > deadline) {
        throw new Error(`kube-apiserver did not become ready; its log is ${join(directory, 'kube-apiserver.log')}`)
      }
      await delay(100)
    }
  }

  const startEtcd = () =>
    processes.start('etcd', [
      '--data-dir=etcd',
      `--listen-client-urls=http://127.0.0.1:${client}`,
      `--advertise-client-urls=http://127.0.0.1:${client}`,
      `--listen-peer-urls=http://127.0.0.1:${peer}`,
      '--unsafe-no-fsync',
      // Data that is not yet in the database is in the write-ahead log.
      '--backend-batch-interval=10s',
      '--backend-batch-limit=100000',
      '--log-level=error',
    ])
  startEtcd()
  await startApiServer()
  const startControllers = () =>
    processes.start('kube-controller-manager', [
      `--kubeconfig=${admin}`,
      '--service-account-private-key-file=sa.key',
      '--root-ca-file=certs/apiserver.crt',
      '--leader-elect=false',
      '--bind-address=127.0.0.1',
      `--secure-port=${controller}`,
      '--use-service-account-credentials',
      ...(options.controllers === 'all'
        ? []
        : [`--controllers=${CONTROLLERS.map((name) => `${name}-controller`).join(',')}`]),
    ])
  const stopControllers = () => processes.stop('kube-controller-manager', 'SIGKILL')
  if (options.controllers !== false) startControllers()

  return {
    ...administrator,
    kubeconfig: admin,
    server,
    directory,
    kubectl,
    kubeconfigFor,
    writes: () => requests().filter(({ verb }) => WRITES.includes(verb)),
    requests,
    startApiServer,
    stopControllers,
    startControllers,
    async restartControllers() {
      await stopControllers()
      startControllers()
    },
    async killEtcd() {
      await processes.stop('etcd', 'SIGKILL')
      startEtcd()
    },
    stopApiServer: (signal = 'SIGTERM') => processes.stop('kube-apiserver', signal),
    async stop() {
      for (const name of ['kube-controller-manager', 'kube-apiserver', 'etcd']) await processes.stop(name, 'SIGTERM')
      rmSync(directory, { recursive: true, force: true })
    },
  }
}
