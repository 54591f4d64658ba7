/**
 * What a pod template may hold (Kubernetes core/v1). The API server refuses a server-side apply with a field that it
 * doesn't know; a misspelt one is named here before it comes to that.
 */
const words = (text: string): ReadonlySet<string> => new Set(text.split(/\s+/).filter(Boolean))

export const templateFields = words('metadata spec')

export const podFields = words(`
  activeDeadlineSeconds affinity automountServiceAccountToken containers dnsConfig dnsPolicy enableServiceLinks
  ephemeralContainers hostAliases hostIPC hostNetwork hostPID hostUsers hostname hostnameOverride imagePullSecrets
  initContainers nodeName nodeSelector os overhead preemptionPolicy priority priorityClassName readinessGates
  resourceClaims resources restartPolicy runtimeClassName schedulerName schedulingGates securityContext serviceAccount
  serviceAccountName setHostnameAsFQDN shareProcessNamespace subdomain terminationGracePeriodSeconds tolerations
  topologySpreadConstraints volumes workloadRef`)

export const containerFields = words(`
  args command env envFrom image imagePullPolicy lifecycle livenessProbe name ports readinessProbe resizePolicy resources
  restartPolicy restartPolicyRules securityContext startupProbe stdin stdinOnce terminationMessagePath
  terminationMessagePolicy tty volumeDevices volumeMounts workingDir`)

/** Keys by which lists are merged (`patchMergeKey` in core/v1); any other list replaces the one that is there. */
export const mergeKeys: Readonly<Record<string, string>> = {
  containers: 'name',
  initContainers: 'name',
  ephemeralContainers: 'name',
  volumes: 'name',
  imagePullSecrets: 'name',
  hostAliases: 'ip',
  topologySpreadConstraints: 'topologyKey',
  resourceClaims: 'name',
  env: 'name',
  ports: 'containerPort',
  volumeMounts: 'mountPath',
  volumeDevices: 'devicePath',
}
