import { type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http'
import { request as httpsRequest, type RequestOptions } from 'node:https'
import type { KubeConfig } from '@kubernetes/client-node'
import { ApiError, type ApiServer, ignoreStatus } from '../../cluster/kubernetes/api-server.ts'
import type { PooledKubeConfig } from '../../cluster/kubernetes/kube-config.ts'
import { buildPath, METADATA_ONLY, type Resource } from '../../cluster/kubernetes/resource.ts'
import type { KubernetesObject } from '../../model/view.ts'
import { formatOperatorName, OPERATOR_LEASE_ROLE, OPERATOR_NAME } from '../../render/network/network.ts'

const STRATEGIC = 'application/strategic-merge-patch+json'
const TRIES = 3
const describeRbacResource = (plural: string, kind: string): Resource => ({
  group: 'rbac.authorization.k8s.io',
  version: 'v1',
  plural,
  kind,
})

/**
 * The kinds that grant an installation its rights. Roles and bindings have its name, the account has the Deployment's.
 */
export const clusterRights: readonly Resource[] = [
  describeRbacResource('clusterrolebindings', 'ClusterRoleBinding'),
  describeRbacResource('clusterroles', 'ClusterRole'),
]
const roleRights: readonly Resource[] = [
  describeRbacResource('rolebindings', 'RoleBinding'),
  describeRbacResource('roles', 'Role'),
]
const accounts: Resource = { group: '', version: 'v1', plural: 'serviceaccounts', kind: 'ServiceAccount' }
export const namespacedRights: readonly Resource[] = [...roleRights, accounts]

/** Removes a finalizer from all of these objects at once: the first one may take the right to change the others. */
export const takeTogether = (config: PooledKubeConfig, paths: readonly string[], finalizer: string): Promise<void> =>
  patchTogether(config, paths, { metadata: { '$deleteFromPrimitiveList/finalizers': [finalizer] } })

/** The objects that grant the rights, as paths. */
interface FoundRights {
  /** True if one of them is being deleted. */
  readonly going: boolean
  readonly held: readonly string[]
  readonly free: readonly string[]
  /** True if these objects grant all rights, so that holding them keeps the rights in force. */
  readonly whole: boolean
}

/**
 * Holds the objects that grant this operator its rights, by a finalizer. An object under deletion stays in force until
 * its finalizers are gone, so the operator can release what it holds even if a user deletes everything at once.
 */
export class OwnRights {
  readonly #api: ApiServer
  readonly #config: PooledKubeConfig
  readonly #finalizer: string
  readonly #candidates: readonly { readonly kind: string; readonly path: string }[]

  /** `where`: the operator's namespace, the namespaces that it manages (none: all), and the installation's name. */
  constructor(
    config: PooledKubeConfig,
    api: ApiServer,
    where: {
      readonly namespace: string
      readonly managedNamespaces: readonly string[]
      readonly installation?: string | undefined
    },
    finalizer: string,
  ) {
    this.#api = api
    this.#config = config
    this.#finalizer = finalizer
    const pathIn =
      (scope?: string, name = formatOperatorName(where.installation)) =>
      (resource: Resource) => ({ kind: resource.kind, path: buildPath(resource, scope, name) })
    const { namespace, managedNamespaces } = where
    const others = managedNamespaces.filter((one) => one !== namespace)
    // If it manages other namespaces only, this Role alone lets it remove the finalizer from its ServiceAccount.
    const isElsewhere = others.length > 0 && others.length === managedNamespaces.length
    this.#candidates = [
      ...clusterRights.map(pathIn()),
      ...roleRights.map(pathIn(namespace)),
      pathIn(namespace, OPERATOR_NAME)(accounts),
      ...(isElsewhere ? roleRights.map(pathIn(namespace, OPERATOR_LEASE_ROLE)) : []),
      ...others.flatMap((one) => roleRights.map(pathIn(one))),
    ]
  }

  /** Reads all of them. Objects that are missing or may not be read belong to the other variant. */
  async read(): Promise<FoundRights> {
    const found = await Promise.all(
      this.#candidates.map(async (one) => ({ ...one, object: await this.#read(one.path) })),
    )
    const present = found.filter(({ object }) => object !== undefined)
    const isHeld = ({ object }: (typeof found)[number]) =>
      object?.metadata.finalizers?.includes(this.#finalizer) ?? false
    const kinds = new Set(present.map(({ kind }) => kind))
    return {
      going: present.some(({ object }) => object?.metadata.deletionTimestamp !== undefined),
      held: present.filter(isHeld).map(({ path }) => path),
      free: present.filter((one) => !isHeld(one)).map(({ path }) => path),
      whole:
        kinds.has('ServiceAccount') &&
        ((kinds.has('ClusterRole') && kinds.has('ClusterRoleBinding')) ||
          (kinds.has('Role') && kinds.has('RoleBinding'))),
    }
  }

  /** Adds the finalizer to all or none, because a part that is held alone would only stay behind. */
  async hold({ free }: FoundRights): Promise<void> {
    try {
      for (const path of free) {
        await this.#api.request('PATCH', path, {
          contentType: STRATEGIC,
          body: { metadata: { finalizers: [this.#finalizer] } },
        })
      }
    } catch (error) {
      await this.release()
      throw error
    }
  }

  /** Removes the finalizer from all of them at once: the removal of the first one may end the right to change the others. */
  async release(): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      try {
        const { held } = await this.read()
        if (held.length > 0) await takeTogether(this.#config, held, this.#finalizer)
        return
      } catch (error) {
        if (attempt === TRIES) throw error
      }
    }
  }

  #read(path: string): Promise<KubernetesObject | undefined> {
    return ignoreStatus(this.#api.request<KubernetesObject>('GET', path, { accept: METADATA_ONLY.object }), 403, 404)
  }
}

const TIMEOUT_MS = 10_000
const GONE = 404

interface Opened {
  readonly request: ClientRequest
  readonly answered: Promise<number>
  /** Settles once the API server asks for the body: by then it has authenticated and authorized the caller. */
  readonly admitted: Promise<undefined>
}

/**
 * Sends one strategic merge patch to several objects, and has all of them admitted before any is changed: the headers
 * go first, with `Expect: 100-continue` (RFC 9110, 10.1.1). So a client can change the objects that grant its rights.
 * Objects that are gone are left out. Throws, with nothing changed, if one is not admitted; and if a change fails.
 */
async function patchTogether(config: KubeConfig, paths: readonly string[], patch: unknown): Promise<void> {
  const body = JSON.stringify(patch)
  const opened = await Promise.all(paths.map((path) => open(config, path, Buffer.byteLength(body))))
  try {
    const early = await Promise.all(opened.map(({ admitted, answered }) => Promise.race([admitted, answered])))
    assertDone(paths, early)
    const ready = opened.filter((_, index) => early[index] === undefined)
    for (const { request } of ready) request.end(body)
    const statuses = await Promise.all(opened.map(({ answered }) => answered))
    assertDone(paths, statuses)
  } finally {
    for (const { request } of opened) request.destroy()
  }
}

/** Throws an ApiError for the first answer that is neither a success nor "not found". */
function assertDone(paths: readonly string[], statuses: readonly (number | undefined)[]): void {
  for (const [index, status = 200] of statuses.entries()) {
    if (status >= 300 && status !== GONE)
      throw new ApiError(status, `HTTP ${status}`, `${paths[index]}: HTTP ${status}`)
  }
}

async function open(config: KubeConfig, path: string, length: number): Promise<Opened> {
  const url = new URL((config.getCurrentCluster()?.server ?? '').replace(/\/$/, '') + path)
  const options: RequestOptions = {}
  await config.applyToHTTPSOptions(options)
  const request = (url.protocol === 'http:' ? httpRequest : httpsRequest)(url, {
    ...options,
    method: 'PATCH',
    signal: AbortSignal.timeout(TIMEOUT_MS),
    headers: {
      ...options.headers,
      accept: 'application/json',
      'content-type': 'application/strategic-merge-patch+json',
      'content-length': length,
      expect: '100-continue',
    },
  })
  const admitted = new Promise<undefined>((resolve) => request.once('continue', () => resolve(undefined)))
  const answered = new Promise<number>((resolve, reject) => {
    request.once('error', reject)
    request.once('response', (response: IncomingMessage) => {
      response.resume()
      resolve(response.statusCode ?? 0)
    })
  })
  answered.catch(() => {
    // The caller gets the error. Once one request has failed, nobody waits for the others.
  })
  request.flushHeaders()
  return { request, answered, admitted }
}
