/** The samples as a repository from which Argo CD and Flux sync namespaces, and the interface of both tools. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { eventually } from '../../cluster/support/operator-process.ts'
import { apply, get, kubectl } from '../../support/operator/e2e-cluster.ts'

const root = join(import.meta.dirname, '../../..')

/** The samples whose images are on the node. */
export const SAMPLES = ['quickstart', 'rate-limits', 'tool-search', 'workflows'] as const
export type Sample = (typeof SAMPLES)[number]

/** Texts by path. */
export type Files = Readonly<Record<string, string>>

/** The manifests of the samples, one folder each. */
export function sampleFiles(): Files {
  const files: Record<string, string> = {}
  for (const sample of SAMPLES) {
    const names = readdirSync(join(root, 'samples', sample)).filter((name) => name.endsWith('.yaml'))
    for (const name of names) files[`${sample}/${name}`] = readFileSync(join(root, 'samples', sample, name), 'utf8')
  }
  return files
}

/** A tool that syncs namespaces with the folders of a repository. */
export interface GitOpsTool {
  /** Its user at the API server. */
  readonly user: string
  /** Syncs a namespace with a folder. */
  keep(sample: Sample, namespace: string): void
  /** Makes the next commit of the repository. */
  commit(files: Files): Promise<void>
  /**
   * Returns why the tool does not report a namespace as healthy and synced with the last commit, or nothing if it does.
   * With `idle`, also returns nothing while the tool only checks again.
   */
  missing(namespace: string, idle: boolean): string | undefined
  /** Returns the end of its logs. */
  log(): string
  stop(): Promise<void>
}

/** Creates an account with all rights, and a kubeconfig. Returns the file, and the user name in the audit log. */
export function accountFor(namespace: string, name: string, folder: string) {
  apply('default', { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } })
  apply(
    namespace,
    { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name } },
    {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'ClusterRoleBinding',
      metadata: { name },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'cluster-admin' },
      subjects: [{ kind: 'ServiceAccount', name, namespace }],
    },
  )
  const token = kubectl(['create', 'token', name, '--namespace', namespace, '--duration', '12h']).trim()
  const config = JSON.parse(readFileSync(administrator(), 'utf8'))
  config.users[0].user = { token }
  const kubeconfig = join(folder, `${name}.kubeconfig`)
  writeFileSync(kubeconfig, JSON.stringify(config), { mode: 0o600 })
  return { kubeconfig, user: `system:serviceaccount:${namespace}:${name}` }
}

/** Applies a file of CRDs, and waits until they are served. */
export async function applyDefinitions(file: string): Promise<void> {
  kubectl(['apply', '--server-side', '--filename', file])
  // `kubectl wait` fails for a CRD that has no status yet.
  await eventually(
    () => kubectl(['wait', '--for=condition=Established', '--timeout=60s', '--filename', file]),
    `${file} is served`,
  )
}

const administrator = () => process.env['KUBECONFIG'] as string

/**
 * Returns a user's writes in namespaces since `from`, without dry runs, as `verb resource/name`, and the next position.
 */
export function listWrites(user: string, namespaces: readonly string[], from = 0): { end: number; writes: string[] } {
  const log = readFileSync(join(dirname(administrator()), 'audit.log'))
  const end = log.lastIndexOf('\n') + 1
  const writes: string[] = []
  for (const line of log.subarray(from, end).toString('utf8').split('\n')) {
    if (!line.includes(user)) continue
    const { user: by, verb, objectRef = {}, requestURI } = JSON.parse(line)
    if (by.username !== user || !namespaces.includes(objectRef.namespace) || requestURI.includes('dryRun=All')) continue
    writes.push(`${verb} ${objectRef.resource}/${objectRef.name} in ${objectRef.namespace}`)
  }
  return { end, writes }
}

interface Generations {
  readonly items: readonly {
    readonly kind: string
    readonly metadata: { readonly name: string; readonly namespace: string; readonly generation: number }
  }[]
}

/** Returns the generations of all objects of our kinds in namespaces. */
export const generationsIn = (namespaces: readonly string[]): string[] =>
  get<Generations>('portico', '--all-namespaces')
    .items.filter(({ metadata }) => namespaces.includes(metadata.namespace))
    .map(({ kind, metadata: { namespace, name, generation } }) => `${namespace} ${kind}/${name} ${generation}`)
