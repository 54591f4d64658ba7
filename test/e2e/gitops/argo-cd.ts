/** Argo CD: its application controller and repository server as processes beside the node, with a Redis and git. */
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseAllDocuments } from 'yaml'
import { Processes } from '../../cluster/support/control-plane.ts'
import { goProgram, goProgramCrds } from '../../setup/go-program.ts'
import { freePort } from '../../support/network/free-port.ts'
import { startGitServer } from '../../support/network/git-server.ts'
import { startRedis } from '../../support/network/redis-server.ts'
import { apply, get, kubectl } from '../../support/operator/e2e-cluster.ts'
import { accountFor, applyDefinitions, type GitOpsTool } from './platform.ts'

const root = join(import.meta.dirname, '../../..')
const SYSTEM = 'argocd'
const COMPONENTS = ['repo-server', 'application-controller'] as const

/** The health checks of our kinds from docs/gitops.md. */
function healthChecks(): object {
  const blocks = [...readFileSync(join(root, 'docs/gitops.md'), 'utf8').matchAll(/^```yaml\n(.*?)^```/gms)]
  const documents = blocks.flatMap(([, text = '']) => parseAllDocuments(text).map((document) => document.toJS()))
  return documents.find(({ kind }) => kind === 'ConfigMap').data
}

interface Application {
  readonly status?: {
    readonly sync?: { readonly status: string; readonly revision?: string }
    readonly health?: { readonly status: string }
    readonly operationState?: { readonly phase: string; readonly message?: string }
    readonly conditions?: readonly { readonly type: string; readonly message: string }[]
    readonly resources?: readonly { kind: string; name: string; status?: string; health?: { status: string } }[]
  }
}

/** Starts Argo CD with an empty repository. */
export async function startArgoCd(): Promise<GitOpsTool> {
  const folder = mkdtempSync(join(tmpdir(), 'argo-cd-'))
  const { kubeconfig, user } = accountFor(SYSTEM, 'argo-cd', folder)
  await applyDefinitions(goProgramCrds('argo-cd'))
  const part = { 'app.kubernetes.io/part-of': 'argocd' }
  apply(
    SYSTEM,
    { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'argocd-cm', labels: part }, data: healthChecks() },
    {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name: 'argocd-secret', labels: part },
      stringData: { 'server.secretkey': 'of nobody' },
    },
    {
      apiVersion: 'argoproj.io/v1alpha1',
      kind: 'AppProject',
      metadata: { name: 'default' },
      spec: {
        sourceRepos: ['*'],
        destinations: [{ namespace: '*', server: '*' }],
        clusterResourceWhitelist: [{ group: '*', kind: '*' }],
      },
    },
  )
  const [git, redis] = await Promise.all([startGitServer(), startRedis()])
  const [port, ...metrics] = await Promise.all([freePort(), freePort(), freePort()])
  // Argo CD runs this script of its image to verify commits, even if a project requires no signatures.
  writeFileSync(join(folder, 'git-verify-wrapper.sh'), '#!/bin/sh\nexit 0\n', { mode: 0o755 })
  const settings = [
    `PATH=${folder}:${process.env['PATH']}`,
    `KUBECONFIG=${kubeconfig}`,
    // `https://kubernetes.default.svc` is the cluster of the kubeconfig.
    'ARGOCD_FAKE_IN_CLUSTER=true',
    'ARGOCD_GPG_ENABLED=false',
    `ARGOCD_ASK_PASS_SOCK=${join(folder, 'ask-pass.sock')}`,
    `TMPDIR=${folder}`,
  ]
  const processes = new Processes((name) => ['env', ...settings, goProgram('argo-cd'), name], folder)
  processes.start('repo-server', [
    '--address=127.0.0.1',
    `--port=${port}`,
    '--metrics-address=127.0.0.1',
    `--metrics-port=${metrics[0]}`,
    '--disable-tls',
    // By default the server looks for a certificate, and refuses that together with `--disable-tls`.
    '--client-ca-path=',
    `--redis=${redis.address}`,
  ])
  processes.start('application-controller', [
    `--kubeconfig=${kubeconfig}`,
    `--namespace=${SYSTEM}`,
    `--repo-server=127.0.0.1:${port}`,
    '--repo-server-plaintext',
    `--redis=${redis.address}`,
    `--metrics-port=${metrics[1]}`,
    '--app-resync=10',
    '--app-resync-jitter=0',
    '--persist-resource-health',
  ])
  let revision = ''
  const keptNamespaces = new Set<string>()

  return {
    user,
    async commit(files) {
      revision = git.commit(files)
      for (const name of keptNamespaces)
        kubectl([
          ...['annotate', 'application', name, '--namespace', SYSTEM, '--overwrite'],
          'argocd.argoproj.io/refresh=normal',
        ])
    },
    keep(sample, namespace) {
      keptNamespaces.add(namespace)
      // Half of the applications use client-side apply, the default of Argo CD.
      const options = keptNamespaces.size % 2 === 0 ? ['ServerSideApply=true'] : []
      apply(SYSTEM, {
        apiVersion: 'argoproj.io/v1alpha1',
        kind: 'Application',
        metadata: { name: namespace },
        spec: {
          project: 'default',
          destination: { server: 'https://kubernetes.default.svc', namespace },
          source: { repoURL: git.url, targetRevision: 'main', path: sample },
          syncPolicy: { automated: { prune: true, selfHeal: true }, syncOptions: options },
        },
      })
    },
    missing(namespace) {
      const { status = {} } = get<Application>('application', namespace, '--namespace', SYSTEM)
      const { sync, health, operationState, conditions, resources } = status
      const isThere = sync?.status === 'Synced' && health?.status === 'Healthy' && sync.revision === revision
      if (isThere && operationState?.phase === 'Succeeded') return undefined
      const others = resources?.filter(
        (one) => one.status !== 'Synced' || (one.health?.status ?? 'Healthy') !== 'Healthy',
      )
      return `${namespace}: ${JSON.stringify({ sync, health, conditions, operation: operationState?.message, others })}`
    },
    log: () => COMPONENTS.map((name) => readFileSync(join(folder, `${name}.log`), 'utf8').slice(-4000)).join('\n'),
    async stop() {
      for (const name of COMPONENTS.toReversed()) await processes.stop(name, 'SIGTERM')
      await Promise.all([git.close(), redis.stop()])
    },
  }
}
