import type { PodTemplate, TakenPart } from './pod-template.ts'
import { type Fields, readFields } from './pod-template-rules.ts'

/**
 * The level `baseline` of the Pod Security Standards, as of Kubernetes 1.36:
 * https://kubernetes.io/docs/concepts/security/pod-security-standards/#baseline
 */

const readItems = (value: unknown): readonly Fields[] => (Array.isArray(value) ? value.map(readFields) : [])
/** Returns a list of plain values. Any other value is returned unchanged in the list, so that it is found wrong. */
const readValues = (value: unknown): readonly unknown[] =>
  value === undefined || value === null ? [] : Array.isArray(value) ? value : [value]

const CAPABILITIES = new Set([
  ...['AUDIT_WRITE', 'CHOWN', 'DAC_OVERRIDE', 'FOWNER', 'FSETID', 'KILL', 'MKNOD', 'NET_BIND_SERVICE'],
  ...['SETFCAP', 'SETGID', 'SETPCAP', 'SETUID', 'SYS_CHROOT'],
])
const SYSCTLS = new Set([
  ...['kernel.shm_rmid_forced', 'net.ipv4.ip_local_port_range', 'net.ipv4.ip_local_reserved_ports'],
  ...['net.ipv4.ip_unprivileged_port_start', 'net.ipv4.ping_group_range', 'net.ipv4.tcp_fin_timeout'],
  ...['net.ipv4.tcp_keepalive_intvl', 'net.ipv4.tcp_keepalive_probes', 'net.ipv4.tcp_keepalive_time'],
  ...['net.ipv4.tcp_rmem', 'net.ipv4.tcp_syncookies', 'net.ipv4.tcp_wmem'],
])
const SELINUX_TYPES = new Set(['', 'container_t', 'container_init_t', 'container_kvm_t', 'container_engine_t'])
const CONFINED = new Set(['RuntimeDefault', 'Localhost'])
const APPARMOR_ANNOTATION = 'container.apparmor.security.beta.kubernetes.io/'
const PROBES = ['livenessProbe', 'readinessProbe', 'startupProbe']
const HOOKS = ['postStart', 'preStop']

const isUnset = (value: unknown) => value === undefined || value === null || value === ''
const isOff = (value: unknown) => isUnset(value) || value === false
const show = (value: unknown) => JSON.stringify(value)

/** Checks a security context of a pod or a container. Only containers have `procMount`, `privileged` and so on. */
function checkContext(context: Fields): string[] {
  const { windowsOptions, seccompProfile, appArmorProfile, seLinuxOptions } = context
  const found: string[] = []
  if (!isOff(readFields(windowsOptions)['hostProcess'])) found.push('windowsOptions.hostProcess')
  const seccomp = readFields(seccompProfile)['type']
  if (!isUnset(seccomp) && !CONFINED.has(seccomp as string)) found.push(`seccompProfile.type ${show(seccomp)}`)
  const appArmor = readFields(appArmorProfile)['type']
  if (!isUnset(appArmor) && !CONFINED.has(appArmor as string)) found.push(`appArmorProfile.type ${show(appArmor)}`)
  const { type, user, role } = readFields(seLinuxOptions)
  if (!isUnset(type) && !SELINUX_TYPES.has(type as string)) found.push(`seLinuxOptions.type ${show(type)}`)
  if (!isUnset(user)) found.push('seLinuxOptions.user')
  if (!isUnset(role)) found.push('seLinuxOptions.role')
  return found
}

/** Finds probes and hooks that the kubelet would send to another host than the pod. */
function checkHost(container: Fields): string[] {
  const lifecycle = readFields(container['lifecycle'])
  const handlers = [
    ...PROBES.map((name) => [name, container[name]] as const),
    ...HOOKS.map((name) => [`lifecycle.${name}`, lifecycle[name]] as const),
  ].flatMap(([name, handler]) => (isUnset(handler) ? [] : [[name, readFields(handler)] as const]))
  return handlers.flatMap(([name, handler]) =>
    ['httpGet', 'tcpSocket']
      .filter((way) => !isUnset(readFields(handler[way])['host']))
      .map((way) => `${name}.${way}.host`),
  )
}

function checkContainer(container: Fields, spec: Fields): string[] {
  const context = readFields(container['securityContext'])
  const { privileged, capabilities, procMount } = context
  const inContext = checkContext(context)
  if (!isOff(privileged)) inContext.push('privileged')
  // In a user namespace of the pod's own, a bare /proc shows nothing of the node (since Kubernetes 1.35).
  const isBare = !isUnset(procMount) && procMount !== 'Default' && spec['hostUsers'] !== false
  if (isBare) inContext.push(`procMount ${show(procMount)}`)
  for (const name of readValues(readFields(capabilities)['add']))
    if (!CAPABILITIES.has(name as string)) inContext.push(`capabilities.add ${show(name)}`)
  const ports = readItems(container['ports']).filter(({ hostPort }) => !isOff(hostPort) && hostPort !== 0)
  return [
    ...inContext.map((text) => `securityContext.${text}`),
    ...ports.map(({ hostPort }) => `ports.hostPort ${show(hostPort)}`),
    ...checkHost(container),
  ]
}

function checkPod(spec: Fields): [pointer: string, text: string][] {
  const context = readFields(spec['securityContext'])
  const sysctls = readItems(context['sysctls']).filter(({ name }) => !SYSCTLS.has(name as string))
  return [
    ...['hostIPC', 'hostNetwork', 'hostPID'].filter((name) => !isOff(spec[name])).map((name) => [name, name] as const),
    ...[...checkContext(context), ...sysctls.map(({ name }) => `sysctls ${show(name)}`)].map(
      (text) => ['securityContext', `securityContext.${text}`] as const,
    ),
    ...readItems(spec['volumes'])
      .filter(({ hostPath }) => hostPath !== undefined && hostPath !== null)
      .map(({ name }) => ['volumes', `volume ${show(name)}: hostPath`] as const),
    ...['containers', 'initContainers', 'ephemeralContainers'].flatMap((list) =>
      readItems(spec[list]).flatMap((container) =>
        checkContainer(container, spec).map((text) => [list, `container ${show(container['name'])}: ${text}`] as const),
      ),
    ),
  ].map(([field, text]) => [`/spec/${field}`, text])
}

const checkAnnotations = (annotations: Fields): [pointer: string, text: string][] =>
  Object.entries(annotations)
    .filter(([name]) => name.startsWith(APPARMOR_ANNOTATION))
    .filter(([, value]) => !isUnset(value) && value !== 'runtime/default' && !String(value).startsWith('localhost/'))
    .map(([name, value]) => ['/metadata/annotations', `${name} ${show(value)}`])

/** Returns everything in a pod template that `baseline` forbids, with pointers. Takes values of any shape. */
export const baselineViolations = ({ metadata, spec }: PodTemplate): readonly TakenPart[] =>
  [...checkAnnotations(readFields(metadata.annotations)), ...checkPod(spec)].map(([pointer, message]) => ({
    pointer,
    message,
  }))

/**
 * Returns how a pod template gives its pods the rights of a ServiceAccount: by name, by its token, or by a volume with
 * a token. Each text begins with a pointer.
 */
export function accountUses(patch: unknown): readonly string[] {
  const spec = readFields(readFields(patch)['spec'])
  const { serviceAccountName = spec['serviceAccount'], automountServiceAccountToken, volumes } = spec
  const tokens = readItems(volumes).filter(({ projected }) =>
    readItems(readFields(projected)['sources']).some(({ serviceAccountToken }) => serviceAccountToken !== undefined),
  )
  return [
    ...(isUnset(serviceAccountName)
      ? []
      : [`/spec/serviceAccountName: the pods run as ServiceAccount ${show(serviceAccountName)}, with its rights`]),
    ...(isOff(automountServiceAccountToken)
      ? []
      : ['/spec/automountServiceAccountToken: every container gets the token of the pods’ ServiceAccount']),
    ...tokens.map(({ name }) => `/spec/volumes: volume ${show(name)} holds a token of the pods’ ServiceAccount`),
  ]
}
