/**
 * A whole Kubernetes node of host processes: the control plane, scheduler, kubelet with containerd, kube-proxy and
 * CoreDNS. It is ready in about ten seconds and restarts processes that end unasked. It runs in a sandbox (sandbox.ts),
 * whose end stops it.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { type ImageOptions, imageArchive } from '../../build/image/archive.ts'
import { kubernetes, minorVersion } from '../cluster/support/binary.ts'
import { type ControlPlane, Processes, startControlPlane } from '../cluster/support/control-plane.ts'
import { goProgram } from '../setup/go-program.ts'
import { NODE as NODE_COMPONENTS } from '../setup/needs.ts'
import { controlGroup, pluginFolder, prepareSandbox } from './sandbox.ts'

const ADDRESS = '10.250.0.1'
const POD_NETWORK = '10.244.0.0/24'
const NAME = 'node'
const PAUSE = 'localhost/pause:1'

export interface Node {
  readonly kubeconfig: string
  readonly kubectl: ControlPlane['kubectl']
  /** Registers an image with the node. */
  importImage(image: ImageOptions): void
  stop(): Promise<void>
}

const network = (directory: string) => ({
  cniVersion: '0.4.0',
  name: 'pods',
  plugins: [
    {
      type: 'bridge',
      bridge: 'pods0',
      isGateway: true,
      isDefaultGateway: true,
      ipMasq: false,
      hairpinMode: true,
      ipam: { type: 'host-local', dataDir: join(directory, 'addresses'), ranges: [[{ subnet: POD_NETWORK }]] },
    },
    { type: 'portmap', capabilities: { portMappings: true } },
  ],
})

/** `restrict_oom_score_adj`: nested virtual machines may not lower it. The opt plugin would create a folder in /opt. */
const containerdConfig = (directory: string) => `version = 2
root = "${directory}/containerd"
state = "${directory}/containerd-state"
[grpc]
  address = "${directory}/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "${directory}/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "${PAUSE}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "${pluginFolder()}"
    conf_dir = "${directory}/network"
`

/** Returns the kubelet's configuration, without fields that its version refuses. */
const kubeletConfig = (directory: string, minor: number) => ({
  apiVersion: 'kubelet.config.k8s.io/v1beta1',
  kind: 'KubeletConfiguration',
  address: '0.0.0.0',
  authentication: { anonymous: { enabled: true }, webhook: { enabled: false } },
  authorization: { mode: 'AlwaysAllow' },
  cgroupDriver: 'cgroupfs',
  cgroupRoot: `/${controlGroup(directory)}`,
  cgroupsPerQOS: false,
  clusterDNS: [ADDRESS],
  clusterDomain: 'cluster.local',
  // Containers that are killed repeatedly restart soon, because no test waits for a back-off of five minutes.
  ...(minor >= 35 ? { crashLoopBackOff: { maxContainerRestartPeriod: '5s' } } : {}),
  containerRuntimeEndpoint: `unix://${directory}/containerd.sock`,
  enforceNodeAllocatable: [],
  evictionHard: { 'nodefs.available': '1%', 'imagefs.available': '1%' },
  // On a full disk the kubelet would remove images, which can't be pulled again.
  imageGCHighThresholdPercent: 100,
  ...(minor >= 31 ? { failCgroupV1: false } : {}),
  failSwapOn: false,
  resolvConf: join(directory, 'resolv.conf'),
  volumePluginDir: join(directory, 'volume-plugins'),
})

const corefile = (kubeconfig: string) => `.:53 {
  bind ${ADDRESS}
  errors
  kubernetes cluster.local in-addr.arpa {
    kubeconfig ${kubeconfig} c
  }
  cache 5
}
`

/** The image that holds the namespaces of each pod. */
const pauseImage = (): ImageOptions => ({
  name: PAUSE,
  layers: [[{ path: 'pause', type: 'file', mode: 0o755, content: readFileSync(goProgram('pause')) }]],
  entrypoint: ['/pause'],
  env: { PATH: '/' },
  user: '65535:65535',
  workingDir: '/',
  compress: false,
})

/** Waits with a deadline; the error has the end of the log of the component that did not start. */
async function until(what: string, log: string, condition: () => boolean): Promise<void> {
  const deadline = Date.now() + 240_000
  while (!condition()) {
    if (Date.now() > deadline) {
      const end = existsSync(log) ? readFileSync(log, 'utf8').slice(-4000) : ''
      throw new Error(`waited in vain: ${what}\n${end}`)
    }
    await delay(200)
  }
}

/**
 * Starts the node. Call it in a sandbox.
 *
 * @param directory the sandbox's folder, which gets all state
 */
export async function startNode(directory: string): Promise<Node> {
  prepareSandbox(directory, ADDRESS)
  const component = kubernetes(NODE_COMPONENTS)
  const findProgram = (name: string): readonly [string, ...string[]] => {
    if (name === 'containerd') return ['containerd']
    return name === 'coredns' ? [goProgram('dns')] : component(name)
  }
  const processes = new Processes(findProgram, directory, true)
  const file = (name: string, content: string) => writeFileSync(join(directory, name), content)
  mkdirSync(join(directory, 'network'))
  file('network/10-pods.conflist', JSON.stringify(network(directory)))
  file('containerd.toml', containerdConfig(directory))
  file('kubelet.yaml', JSON.stringify(kubeletConfig(directory, minorVersion(component('kubelet')))))
  file('resolv.conf', '')

  processes.start('containerd', ['--config', 'containerd.toml'])
  const control = await startControlPlane({ controllers: 'all', address: ADDRESS, supervised: true })
  const { kubeconfig, kubectl } = control
  file('Corefile', corefile(kubeconfig))
  processes.start('kube-scheduler', ['--kubeconfig', kubeconfig, '--leader-elect=false', '--bind-address=127.0.0.1'])
  processes.start('coredns', ['-conf', 'Corefile'])
  await until('containerd listens', join(directory, 'containerd.log'), () =>
    existsSync(join(directory, 'containerd.sock')),
  )

  const importImage = (image: ImageOptions) => {
    const archive = join(directory, 'image.tar')
    writeFileSync(archive, imageArchive(image))
    const socket = ['--address', join(directory, 'containerd.sock'), '--namespace', 'k8s.io']
    execFileSync('ctr', [...socket, 'images', 'import', archive], { stdio: ['ignore', 'ignore', 'pipe'] })
    rmSync(archive)
  }
  importImage(pauseImage())

  processes.start('kubelet', [
    '--config=kubelet.yaml',
    `--kubeconfig=${kubeconfig}`,
    `--root-dir=${join(directory, 'kubelet-root')}`,
    `--cert-dir=${join(directory, 'kubelet-certs')}`,
    `--hostname-override=${NAME}`,
    `--node-ip=${ADDRESS}`,
  ])
  // Pods on one bridge reach each other without passing the firewall, but their answers must pass it.
  processes.start('kube-proxy', [
    `--kubeconfig=${kubeconfig}`,
    `--hostname-override=${NAME}`,
    `--cluster-cidr=${POD_NETWORK}`,
    '--proxy-mode=iptables',
    '--masquerade-all',
    '--conntrack-max-per-core=0',
    '--metrics-bind-address=127.0.0.1:10249',
    '--healthz-bind-address=127.0.0.1:10256',
  ])
  await until('the node is ready', join(directory, 'kubelet.log'), () =>
    kubectl(['get', 'nodes', '--output', 'jsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}']).includes(
      'True',
    ),
  )

  return {
    kubeconfig,
    kubectl,
    importImage,
    async stop() {
      for (const name of ['kubelet', 'kube-proxy', 'kube-scheduler', 'coredns', 'containerd'])
        await processes.stop(name, 'SIGTERM')
      await control.stop()
    },
  }
}
