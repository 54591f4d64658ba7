/** Checks the fields of a pod template (core/v1): the API server refuses an unknown field. */
const words = (text: string): ReadonlySet<string> => new Set(text.split(/\s+/).filter(Boolean))

const templateFields = words('metadata spec')

const podFields = words(`
  activeDeadlineSeconds affinity automountServiceAccountToken containers dnsConfig dnsPolicy enableServiceLinks
  ephemeralContainers hostAliases hostIPC hostNetwork hostPID hostUsers hostname hostnameOverride imagePullSecrets
  initContainers nodeName nodeSelector os overhead preemptionPolicy priority priorityClassName readinessGates
  resourceClaims resources restartPolicy runtimeClassName schedulerName schedulingGates securityContext serviceAccount
  serviceAccountName setHostnameAsFQDN shareProcessNamespace subdomain terminationGracePeriodSeconds tolerations
  topologySpreadConstraints volumes workloadRef`)

const containerFields = words(`
  args command env envFrom image imagePullPolicy lifecycle livenessProbe name ports readinessProbe resizePolicy resources
  restartPolicy restartPolicyRules securityContext startupProbe stdin stdinOnce terminationMessagePath
  terminationMessagePolicy tty volumeDevices volumeMounts workingDir`)

/** Keys by which lists are merged (`patchMergeKey` in core/v1). Any other list replaces the existing one. */
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

export type Fields = Readonly<Record<string, unknown>>

export const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

export const containerLists = ['containers', 'initContainers', 'ephemeralContainers']

const describeShape = (value: unknown) => (Array.isArray(value) ? 'a list' : isFields(value) ? 'an object' : 'a value')

interface TemplatePosition {
  readonly pointer: string
  /** Name of the field; empty for an item of a list and for the template itself. */
  readonly key: string
}

const byName = ([a]: readonly [string, unknown], [b]: readonly [string, unknown]) => (a < b ? -1 : 1)

function checkShapes(value: unknown, base: unknown, { pointer, key }: TemplatePosition, problems: string[]): void {
  if (value === null || value === undefined) return
  if (base !== undefined && describeShape(value) !== describeShape(base))
    problems.push(`${pointer}: ${describeShape(base)} is expected here`)
  else if (Array.isArray(value)) checkItems(value, (base ?? []) as readonly unknown[], { pointer, key }, problems)
  else if (isFields(value)) checkFields(value, isFields(base) ? base : undefined, pointer, problems)
}

function checkFields(fields: Fields, base: Fields | undefined, pointer: string, problems: string[]): void {
  for (const [key, field] of Object.entries(fields).sort(byName)) {
    const position = { pointer: `${pointer}/${key}`, key }
    if (key.startsWith('$')) problems.push(`${position.pointer}: patch directives are not supported`)
    else checkShapes(field, base?.[key], position, problems)
  }
}

function checkItems(
  items: readonly unknown[],
  base: readonly unknown[],
  { pointer: list, key }: TemplatePosition,
  problems: string[],
): void {
  const mergeKey = mergeKeys[key]
  items.forEach((item, at) => {
    const pointer = `${list}/${at}`
    if (!isFields(item)) {
      if (mergeKey !== undefined) problems.push(`${pointer}: an object is expected here`)
      return
    }
    if (mergeKey !== undefined && item[mergeKey] === undefined) problems.push(`${pointer}: ${mergeKey} is missing`)
    if (containerLists.includes(key)) checkKnown(item, containerFields, pointer, problems)
    const under = mergeKey && base.find((candidate) => isFields(candidate) && candidate[mergeKey] === item[mergeKey])
    checkShapes(item, under || undefined, { pointer, key: '' }, problems)
  })
}

function checkKnown(value: Fields, known: ReadonlySet<string>, pointer: string, problems: string[]): void {
  for (const name of Object.keys(value).sort()) {
    if (!known.has(name) && !name.startsWith('$')) problems.push(`${pointer}/${name}: the field does not exist`)
  }
}

/** Adds to `problems` the parts of a user's pod template that are unknown or can't be merged over `base`. */
export function checkPatch(patch: Fields, base: unknown, problems: string[]): void {
  checkKnown(patch, templateFields, '', problems)
  if (isFields(patch['spec'])) checkKnown(patch['spec'], podFields, '/spec', problems)
  checkShapes(patch, base, { pointer: '', key: '' }, problems)
}

/** Finds containers without an image: the patch probably misspelt the name of the container that it meant to change. */
export function checkImages(spec: Fields, problems: string[]): void {
  const named = (list: string) => ((spec[list] ?? []) as Fields[]).map(({ name }) => String(name))
  for (const list of containerLists) {
    for (const { name, image } of (spec[list] ?? []) as Fields[]) {
      if (image !== undefined) continue
      const elsewhere = containerLists.find((other) => other !== list && named(other).includes(String(name)))
      const hint = elsewhere
        ? `it is one of ${elsewhere} here`
        : `no container has this name; there are ${[...named('initContainers'), ...named('containers')].filter((other) => other !== name).join(', ')}`
      problems.push(`/spec/${list}: container ${JSON.stringify(name)} has no image: ${hint}`)
    }
  }
}
