/** Pods, each with one setting that the Pod Security level `baseline` forbids or allows. */

type Fields = Record<string, unknown>

export interface PodCase {
  readonly name: string
  readonly metadata?: Fields
  readonly spec: Fields
  /** The first minor version of Kubernetes 1 with this verdict, if the oldest supported version has another one. */
  readonly since?: number
}

const pod = (name: string, spec: Fields): PodCase => ({ name, spec })
const since = (minor: number, one: PodCase): PodCase => ({ ...one, since: minor })
const main = (fields: Fields) => ({ containers: [{ name: 'mcp', image: 'a:1', ...fields }] })
const init = (fields: Fields) => ({ ...main({}), initContainers: [{ name: 'init', image: 'a:1', ...fields }] })
const context = (securityContext: Fields) => main({ securityContext })
const podContext = (securityContext: Fields) => ({ ...main({}), securityContext })
const capability = (...add: string[]) => context({ capabilities: { add } })
const sysctl = (name: string, value: string) => podContext({ sysctls: [{ name, value }] })
const volume = (source: Fields) => ({ ...main({}), volumes: [{ name: 'v', ...source }] })
const httpGet = { path: '/', port: 80 }
const windows = { windowsOptions: { hostProcess: true } }

export const forbidden: readonly PodCase[] = [
  pod('hostNetwork', { ...main({}), hostNetwork: true }),
  pod('hostPID', { ...main({}), hostPID: true }),
  pod('hostIPC', { ...main({}), hostIPC: true }),
  pod('hostPath', volume({ hostPath: { path: '/' } })),
  pod('hostPort', main({ ports: [{ containerPort: 80, hostPort: 80 }] })),
  pod('hostPort of an init container', init({ ports: [{ containerPort: 80, hostPort: 80 }] })),
  pod('privileged', context({ privileged: true })),
  pod('privileged init container', init({ securityContext: { privileged: true } })),
  pod('SYS_ADMIN', capability('SYS_ADMIN')),
  pod('NET_RAW', capability('CHOWN', 'NET_RAW')),
  pod('every capability', capability('ALL')),
  pod('capability in small letters', capability('chown')),
  pod('seccomp of the pod', podContext({ seccompProfile: { type: 'Unconfined' } })),
  pod('seccomp of a container', context({ seccompProfile: { type: 'Unconfined' } })),
  since(30, pod('AppArmor of the pod', podContext({ appArmorProfile: { type: 'Unconfined' } }))),
  since(
    30,
    pod('AppArmor of an init container', init({ securityContext: { appArmorProfile: { type: 'Unconfined' } } })),
  ),
  {
    ...pod('AppArmor by annotation', main({})),
    metadata: { annotations: { 'container.apparmor.security.beta.kubernetes.io/mcp': 'unconfined' } },
  },
  pod('SELinux type', podContext({ seLinuxOptions: { type: 'spc_t' } })),
  pod('SELinux user', context({ seLinuxOptions: { user: 'system_u' } })),
  pod('SELinux role', context({ seLinuxOptions: { role: 'system_r' } })),
  pod('sysctl', sysctl('kernel.msgmax', '65536')),
  pod('hostProcess of the pod', { ...podContext(windows), hostNetwork: true, os: { name: 'windows' } }),
  pod('hostProcess of a container', { ...context(windows), hostNetwork: true, os: { name: 'windows' } }),
  since(34, pod('host of a probe', main({ livenessProbe: { httpGet: { ...httpGet, host: '169.254.169.254' } } }))),
  since(34, pod('host of a socket probe', main({ readinessProbe: { tcpSocket: { port: 80, host: '10.0.0.1' } } }))),
  since(34, pod('host of a hook', main({ lifecycle: { preStop: { httpGet: { ...httpGet, host: '10.0.0.1' } } } }))),
]

export const allowed: readonly PodCase[] = [
  pod('nothing', main({})),
  pod('what is off', { ...context({ privileged: false, procMount: 'Default' }), hostNetwork: false, hostPID: false }),
  pod('capabilities that containers have anyway', capability('NET_BIND_SERVICE', 'SYS_CHROOT', 'MKNOD')),
  pod('dropped capabilities', context({ capabilities: { drop: ['ALL'] } })),
  pod('root', context({ runAsUser: 0, allowPrivilegeEscalation: true })),
  pod('seccomp', podContext({ seccompProfile: { type: 'Localhost', localhostProfile: 'a.json' } })),
  since(30, pod('AppArmor', podContext({ appArmorProfile: { type: 'RuntimeDefault' } }))),
  pod('SELinux', podContext({ seLinuxOptions: { type: 'container_t', level: 's0:c1' } })),
  pod('sysctls', sysctl('net.ipv4.tcp_keepalive_time', '60')),
  pod('procMount in a user namespace', { ...context({ procMount: 'Unmasked' }), hostUsers: false }),
  pod('probe', main({ livenessProbe: { httpGet } })),
  pod('other volumes', volume({ emptyDir: {} })),
  pod('another ServiceAccount', { ...main({}), serviceAccountName: 'default', automountServiceAccountToken: true }),
]
