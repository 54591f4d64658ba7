/**
 * Flux: its kustomize-controller as a process beside the node. This file replaces source-controller: it serves an archive
 * of the files over HTTP, and writes the status of a GitRepository that names it.
 */
import { createHash } from 'node:crypto'
import { mkdtempSync, readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { tar } from '../../../build/image/tar.ts'
import { Processes } from '../../cluster/support/control-plane.ts'
import { goProgram, goProgramCrds } from '../../setup/go-program.ts'
import { freePort } from '../../support/network/free-port.ts'
import { apply, get, kubectl } from '../../support/operator/e2e-cluster.ts'
import { accountFor, applyDefinitions, type GitOpsTool } from './platform.ts'

const SYSTEM = 'flux-system'
const CONTROLLER = 'kustomize-controller'
const REPOSITORY = 'platform'

interface Kustomization {
  readonly metadata: { readonly generation: number }
  readonly status?: {
    readonly observedGeneration?: number
    readonly lastAppliedRevision?: string
    readonly conditions?: readonly {
      readonly type: string
      readonly status: string
      readonly reason: string
      readonly message: string
    }[]
  }
}

/** Starts Flux with an empty repository. */
export async function startFlux(): Promise<GitOpsTool> {
  const folder = mkdtempSync(join(tmpdir(), 'flux-'))
  const { kubeconfig, user } = accountFor(SYSTEM, 'flux', folder)
  await applyDefinitions(goProgramCrds('flux'))

  let archive = Buffer.alloc(0)
  let revision = ''
  const server = createServer((_, response) => response.end(archive))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const artifacts = `http://127.0.0.1:${(server.address() as AddressInfo).port}`

  const processes = new Processes(
    () => ['env', `KUBECONFIG=${kubeconfig}`, `RUNTIME_NAMESPACE=${SYSTEM}`, goProgram('flux')],
    folder,
  )
  const [metrics, health] = await Promise.all([freePort(), freePort()])
  processes.start(CONTROLLER, [`--metrics-addr=127.0.0.1:${metrics}`, `--health-addr=127.0.0.1:${health}`])

  return {
    user,
    async commit(files) {
      archive = gzipSync(
        tar(
          Object.entries(files).map(([path, text]) => ({
            path,
            type: 'file',
            mode: 0o644,
            content: Buffer.from(text),
          })),
        ),
      )
      const digest = createHash('sha256').update(archive).digest('hex')
      revision = `main@sha1:${digest.slice(0, 40)}`
      const metadata = { name: REPOSITORY, namespace: SYSTEM }
      const kind = { apiVersion: 'source.toolkit.fluxcd.io/v1', kind: 'GitRepository', metadata }
      const url = 'https://git.example/platform'
      apply(SYSTEM, { ...kind, spec: { url, interval: '10m', ref: { branch: 'main' } } })
      const { generation } = get<Kustomization>('gitrepository', REPOSITORY, '--namespace', SYSTEM).metadata
      const now = new Date().toISOString().replace(/\.\d+Z/, 'Z')
      const path = `gitrepository/${SYSTEM}/${REPOSITORY}/${digest}.tar.gz`
      const artifact = { digest: `sha256:${digest}`, lastUpdateTime: now, path, revision, url: `${artifacts}/${path}` }
      const ready = { type: 'Ready', status: 'True', reason: 'Succeeded', message: 'stored artifact' }
      const status = {
        observedGeneration: generation,
        artifact: { ...artifact, size: archive.length },
        conditions: [{ ...ready, lastTransitionTime: now, observedGeneration: generation }],
      }
      kubectl([
        ...['patch', 'gitrepository', REPOSITORY, '--namespace', SYSTEM, '--subresource', 'status', '--type', 'merge'],
        ...['--patch', JSON.stringify({ status })],
      ])
    },
    keep(sample, namespace) {
      apply(SYSTEM, {
        apiVersion: 'kustomize.toolkit.fluxcd.io/v1',
        kind: 'Kustomization',
        metadata: { name: namespace },
        spec: {
          interval: '10s',
          sourceRef: { kind: 'GitRepository', name: REPOSITORY },
          path: `./${sample}`,
          targetNamespace: namespace,
          prune: true,
          wait: true,
          timeout: '5m',
        },
      })
    },
    missing(namespace, idle) {
      const { metadata, status } = get<Kustomization>('kustomization', namespace, '--namespace', SYSTEM)
      const ready = status?.conditions?.find(({ type }) => type === 'Ready')
      if (status?.observedGeneration !== metadata.generation) return `${namespace}: not looked at yet`
      // Each check begins with this condition.
      const looks = idle && ready?.status === 'Unknown' && ready.reason === 'Progressing'
      if (ready?.status !== 'True' && !looks) return `${namespace}: ${ready?.message ?? 'nothing is said'}`
      if (status.lastAppliedRevision !== revision) return `${namespace}: at ${status.lastAppliedRevision}`
      return undefined
    },
    log: () => readFileSync(join(folder, `${CONTROLLER}.log`), 'utf8').slice(-6000),
    async stop() {
      await processes.stop(CONTROLLER, 'SIGTERM')
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
