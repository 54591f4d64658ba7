/** Base URL of a Service for pods of the same cluster, whatever the cluster's own domain is called. */
export const serviceAddress = (service: {
  readonly namespace: string
  readonly name: string
  readonly port: number
}): string => `http://${service.name}.${service.namespace}.svc:${service.port}`
