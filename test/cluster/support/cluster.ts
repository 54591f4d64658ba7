/** A control plane with an operator that has its own rights: the usual set-up of test files here, and its queries. */
import { isDeepStrictEqual } from 'node:util'
import type { Condition } from '../../support/operator/live-object.ts'
import type { Admin } from './admin.ts'
import { clearCluster } from './cleared.ts'
import { type AuditedRequest, type ControlPlane, type ControlPlaneOptions, startControlPlane } from './control-plane.ts'
import {
  installOperator,
  OPERATOR_USER,
  type OperatorProcess,
  operatorKubeconfig,
  SYSTEM,
  startOperator,
} from './operator-process.ts'

/** The environment of an operator that polls pods at their own addresses, as it does in a cluster. */
export const IN_CLUSTER = { KUBERNETES_SERVICE_HOST: '127.0.0.1' } as const

/** Its functions need no `this`: a test file can destructure them before anything is started. */
export interface Cluster extends Admin {
  /** The control plane with its writes since `install`. Throws before `install`. */
  readonly plane: ControlPlane
  /** The operator that was started last. Throws before the first. */
  readonly operator: OperatorProcess
  /** Starts a control plane, without CRDs. */
  bare(options?: ControlPlaneOptions): Promise<ControlPlane>
  /** Starts a control plane and installs CRDs and the operator's rights. */
  install(options?: ControlPlaneOptions): Promise<void>
  /** Starts an operator with its own token, and waits until each of its watches has its first list. */
  startOperator(args?: readonly string[], env?: Readonly<Record<string, string>>): Promise<OperatorProcess>
  /** `install`, then `startOperator` without options. */
  start(): Promise<void>
  /** Ends an operator that another file has left running. */
  stopOperator(): Promise<void>
  /** Ends the operators and the control plane that run. */
  stop(): Promise<void>
  kubectl: ControlPlane['kubectl']
  /** Returns a condition of an object; throws if the object does not exist. */
  condition(kind: string, name: string, type: string): Condition | undefined
  /** Returns the operators' writes so far, without Leases and Events. */
  written(): readonly AuditedRequest[]
}

/**
 * Test files that are loaded into one process share one control plane: the first file starts it, the last stops it, and
 * each clears it for the next.
 */
const shared: {
  users: number
  plane: ControlPlane | undefined
  options: ControlPlaneOptions
  /** Keeps running for the next file if that asks for the same options. */
  operator: { readonly startArgs: string; readonly process: OperatorProcess } | undefined
} = { users: 0, plane: undefined, options: {}, operator: undefined }

function withLogFromNow(operator: OperatorProcess): OperatorProcess {
  const before = operator.log().length
  return Object.create(operator, { log: { value: () => operator.log().slice(before) } })
}

/** A cluster in which nothing is started yet. */
export function newCluster(): Cluster {
  shared.users += 1
  let plane: ControlPlane | undefined
  const operators: OperatorProcess[] = []

  const requirePlane = (): ControlPlane => {
    if (!plane) throw new Error('the control plane is not started yet')
    return plane
  }
  const kubectl: Cluster['kubectl'] = (...args) => requirePlane().kubectl(...args)
  const read: Cluster['read'] = (...args) => requirePlane().read(...args)

  const bare: Cluster['bare'] = async (options = {}) => {
    if (shared.plane === undefined) {
      shared.plane = await startControlPlane(options)
      shared.options = options
    } else if (!isDeepStrictEqual({ ...shared.options, ...options }, shared.options)) {
      const [wanted, had] = [options, shared.options].map((one) => JSON.stringify(one))
      throw new Error(`the control plane of this process was started with ${had}, and not ${wanted}`)
    }
    const whole = shared.plane
    const before = whole.requests().length
    const requests = () => whole.requests().slice(before)
    const writesBefore = whole.writes().length
    plane = { ...whole, requests, writes: () => whole.writes().slice(writesBefore) }
    return plane
  }
  const install: Cluster['install'] = async (options) => {
    const own = await bare(options)
    if (!own.exists('namespace', SYSTEM)) await installOperator(own)
  }
  const begin: Cluster['startOperator'] = async (args = [], env = {}) => {
    const startArgs = JSON.stringify([args, env])
    const { operator: running } = shared
    if (running && !running.process.exited) {
      if (running.startArgs === startArgs) {
        operators.push(withLogFromNow(running.process))
        return operators.at(-1) as OperatorProcess
      }
      // Two operators would make the same writes.
      await running.process.stop()
    }
    const process = await startOperator(operatorKubeconfig(requirePlane()), args, env)
    operators.push(process)
    shared.operator = { startArgs, process }
    await process.ready()
    return process
  }

  return {
    get plane() {
      return requirePlane()
    },
    get operator() {
      const last = operators.at(-1)
      if (!last) throw new Error('no operator is started yet')
      return last
    },
    bare,
    install,
    startOperator: begin,
    async start() {
      await install()
      await begin()
    },
    async stopOperator() {
      const running = shared.operator?.process
      if (running && !running.exited) await running.stop()
    },
    async stop() {
      shared.users -= 1
      if (shared.users > 0) {
        if (plane) await clearCluster(plane)
        return
      }
      for (const one of [shared.operator?.process, ...operators]) if (one && !one.exited) await one.stop()
      await shared.plane?.stop()
    },
    kubectl,
    find: (...args) => requirePlane().find(...args),
    read,
    exists: (...args) => requirePlane().exists(...args),
    list: (...args) => requirePlane().list(...args),
    listMetadata: (...args) => requirePlane().listMetadata(...args),
    apply: (...args) => requirePlane().apply(...args),
    applyOnServer: (...args) => requirePlane().applyOnServer(...args),
    readRefusal: (...args) => requirePlane().readRefusal(...args),
    create: (...args) => requirePlane().create(...args),
    mergePatch: (...args) => requirePlane().mergePatch(...args),
    patch: (...args) => requirePlane().patch(...args),
    may: (...args) => requirePlane().may(...args),
    remove: (...args) => requirePlane().remove(...args),
    removeAtOnce: (...args) => requirePlane().removeAtOnce(...args),
    orphan: (...args) => requirePlane().orphan(...args),
    removeAndWait: (...args) => requirePlane().removeAndWait(...args),
    token: (...args) => requirePlane().token(...args),
    serves: (...args) => requirePlane().serves(...args),
    isReady: () => requirePlane().isReady(),
    condition: (kind, name, type) => read(kind, name).status?.conditions?.find((one) => one.type === type),
    written: () =>
      requirePlane()
        .writes()
        .filter(({ user, resource }) => user === OPERATOR_USER && resource !== 'leases' && resource !== 'events'),
  }
}
