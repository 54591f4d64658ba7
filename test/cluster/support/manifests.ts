/** Small manifests for the tests on a real API server. */
const GROUP = 'portico.dev'

export type Manifest = {
  kind: string
  metadata: { name: string; namespace: string }
  spec: Record<string, unknown>
} & Record<string, unknown>

export function manifest(kind: string, name: string, spec: Record<string, unknown>, namespace = 'default'): Manifest {
  return { apiVersion: `${GROUP}/v1beta1`, kind, metadata: { name, namespace }, spec }
}

export const buildNamespace = (name: string, labels: Readonly<Record<string, string>> = {}) => ({
  apiVersion: 'v1',
  kind: 'Namespace',
  metadata: { name, labels },
})

export const serviceAccount = (name: string, namespace = 'default') => ({
  apiVersion: 'v1',
  kind: 'ServiceAccount',
  metadata: { name, namespace },
})

export const group = (name = 'tools') => manifest('MCPGroup', name, { description: 'Tools of the team.' })

export const telemetry = (name: string) =>
  manifest('MCPTelemetryConfig', name, {
    openTelemetry: { enabled: true, endpoint: 'https://otel.example:4318', tracing: { enabled: true } },
  })

const withTelemetry = (config?: string) => (config ? { telemetryConfigRef: { name: config } } : {})

export const server = (name: string, config?: string, groupName = 'tools') =>
  manifest('MCPServer', name, {
    image: 'everything:test',
    transport: 'streamable-http',
    groupRef: { name: groupName },
    ...withTelemetry(config),
  })

export const proxy = (name: string, config?: string) =>
  manifest('MCPRemoteProxy', name, { remoteUrl: 'https://mcp.example/mcp', ...withTelemetry(config) })

export const gateway = (name: string, config?: string, groupName = 'tools') =>
  manifest('VirtualMCPServer', name, {
    groupRef: { name: groupName },
    incomingAuth: { type: 'anonymous' },
    ...withTelemetry(config),
  })

/** A value for the key of a CA bundle; the operator only checks its form. */
export const CERTIFICATE = '-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n'

/** Returns YAML documents with a leading `---`: an older kubectl takes a text that begins with `{` for JSON only. */
export const yaml = (...manifests: readonly object[]) =>
  manifests.map((one) => `---\n${JSON.stringify(one)}\n`).join('')
