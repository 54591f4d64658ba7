/** A control plane with the operator at work under its own rights: what most test files here set up, and say of it. */
import type { Condition, LiveObject } from '../../support/operator/live-object.ts'
import { type AuditedRequest, type ControlPlane, type ControlPlaneOptions, startControlPlane } from './control-plane.ts'
import { yaml } from './manifests.ts'
import {
  installOperator,
  OPERATOR_USER,
  type OperatorProcess,
  operatorKubeconfig,
  startOperator,
} from './operator-process.ts'

/** Its functions stand alone: a test file takes those that it needs out of the object before anything is started. */
export interface Cluster {
  /** Throws before `install`. */
  readonly plane: ControlPlane
  /** The operator that was started last; throws before there was one. */
  readonly operator: OperatorProcess
  /** Starts a control plane and installs CRDs and the operator's rights. */
  install(options?: ControlPlaneOptions): Promise<void>
  /** Starts an operator with its own token, and waits until each of its watches has its first list. */
  startOperator(args?: readonly string[], env?: Readonly<Record<string, string>>): Promise<OperatorProcess>
  /** `install`, then `startOperator` without options. */
  start(): Promise<void>
  /** Ends operators and control plane, as far as they run. */
  stop(): Promise<void>
  kubectl: ControlPlane['kubectl']
  /** `kubectl apply`; gives what it prints. */
  apply(...objects: readonly object[]): string
  /** An object of the namespace `default`, unless options of `kubectl get` say otherwise; throws where there is none. */
  read(kind: string, name: string, ...options: readonly string[]): LiveObject
  /** Objects of a kind, as `read` has one. */
  list(kind: string, ...options: readonly string[]): LiveObject[]
  exists(kind: string, name: string): boolean
  /** A condition of an object, which has to be there. */
  condition(kind: string, name: string, type: string): Condition | undefined
  /** What operators have written so far, Leases and Events left out. */
  written(): readonly AuditedRequest[]
}

/** A cluster that nothing is started of yet. */
export function newCluster(): Cluster {
  let plane: ControlPlane | undefined
  const operators: OperatorProcess[] = []

  const started = (): ControlPlane => {
    if (!plane) throw new Error('the control plane is not started yet')
    return plane
  }
  const kubectl: Cluster['kubectl'] = (...given) => started().kubectl(...given)
  const read: Cluster['read'] = (kind, name, ...options) =>
    JSON.parse(kubectl(['get', kind, name, ...options, '-o', 'json']))
  const install: Cluster['install'] = async (options) => {
    plane = await startControlPlane(options)
    await installOperator(plane)
  }
  const start: Cluster['startOperator'] = async (args, env) => {
    const operator = await startOperator(operatorKubeconfig(started()), args, env)
    operators.push(operator)
    await operator.ready()
    return operator
  }

  return {
    get plane() {
      return started()
    },
    get operator() {
      const last = operators.at(-1)
      if (!last) throw new Error('no operator is started yet')
      return last
    },
    install,
    startOperator: start,
    async start() {
      await install()
      await start()
    },
    async stop() {
      for (const operator of operators) if (!operator.exited) await operator.stop()
      await plane?.stop()
    },
    kubectl,
    apply: (...objects) => kubectl(['apply', '-f', '-'], { input: yaml(...objects) }),
    read,
    list: (kind, ...options) => JSON.parse(kubectl(['get', kind, ...options, '-o', 'json'])).items,
    exists: (kind, name) => kubectl(['get', kind, name, '--ignore-not-found', '-o', 'name']) !== '',
    condition: (kind, name, type) => read(kind, name).status?.conditions?.find((one) => one.type === type),
    written: () =>
      started()
        .writes()
        .filter(({ user, resource }) => user === OPERATOR_USER && resource !== 'leases' && resource !== 'events'),
  }
}
