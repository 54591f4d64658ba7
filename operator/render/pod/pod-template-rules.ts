/**
 * The API server's rules for pods (Kubernetes `pkg/apis/core/validation`) that people often break. The API server still
 * refuses the rest.
 */
import { isObject } from '../../../crds/settings/json.ts'
import { LABEL, LABEL_VALUE, QUALIFIED } from '../network/network.ts'

const SUBDOMAIN = /^(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/
const VARIABLE = /^[ -<>-~]+$/
const PORT_NAME = /^(?=.{1,15}$)(?=.*[a-z])[a-z0-9]+(?:-[a-z0-9]+)*$/

const HANDLERS = ['exec', 'grpc', 'httpGet', 'sleep', 'tcpSocket']
const PROBES = ['livenessProbe', 'readinessProbe', 'startupProbe']
const VALUE_SOURCES = ['configMapKeyRef', 'fieldRef', 'fileKeyRef', 'resourceFieldRef', 'secretKeyRef']

/** Allowed values of fields with a fixed choice, by field. */
const CHOICES: Readonly<Record<string, readonly string[]>> = {
  dnsPolicy: ['ClusterFirst', 'ClusterFirstWithHostNet', 'Default', 'None'],
  imagePullPolicy: ['Always', 'IfNotPresent', 'Never'],
  protocol: ['TCP', 'UDP', 'SCTP'],
  terminationMessagePolicy: ['File', 'FallbackToLogsOnError'],
  whenUnsatisfiable: ['DoNotSchedule', 'ScheduleAnyway'],
}

type Refuse = (where: string, message: string) => void

export const readItems = (value: unknown): readonly Fields[] => (Array.isArray(value) ? value.filter(isObject) : [])
export const readFields = (value: unknown): Fields => (isObject(value) ? value : {})
const isSet = (value: unknown): boolean => value !== undefined && value !== null
const show = (value: unknown): string => JSON.stringify(value)

const listGiven = (fields: Fields, names: readonly string[]) => names.filter((name) => isSet(fields[name]))

function checkChoices(fields: Fields, where: string, refuse: Refuse): void {
  for (const [name, choices] of Object.entries(CHOICES))
    if (isSet(fields[name]) && !choices.includes(fields[name] as string))
      refuse(`${where}/${name}`, `${show(fields[name])} is not one of ${choices.join(', ')}`)
}

function checkKeys(items: readonly Fields[], keys: readonly string[], where: string, refuse: Refuse): void {
  const known = new Set<string>()
  for (const item of items) {
    const id = keys.map((key) => String(item[key] ?? (key === 'protocol' ? 'TCP' : ''))).join(', ')
    if (known.has(id)) refuse(where, `${id} occurs twice`)
    known.add(id)
  }
}

function checkTexts(
  fields: unknown,
  where: string,
  refuse: Refuse,
  isValue: (text: string) => boolean = () => true,
): void {
  for (const [name, value] of Object.entries(readFields(fields))) {
    if (!QUALIFIED.test(name)) refuse(where, `${show(name)} is not a qualified name`)
    if (typeof value !== 'string') refuse(`${where}/${name}`, `${show(value)} must be quoted: a string is expected`)
    else if (!isValue(value)) refuse(`${where}/${name}`, `${show(value)} is not a valid value of a label`)
  }
}

const isLabelValue = (text: string): boolean => LABEL_VALUE.test(text)

function checkEnv(container: Fields, where: string, refuse: Refuse): void {
  const variables = readItems(container['env'])
  checkKeys(variables, ['name'], `${where}/env`, refuse)
  for (const { name, value, valueFrom } of variables) {
    const at = `${where}/env/${String(name)}`
    if (typeof name !== 'string' || !VARIABLE.test(name))
      refuse(`${where}/env`, `${show(name)} is not a valid name of a variable`)
    if (isSet(value) && typeof value !== 'string')
      refuse(at, `the value ${show(value)} must be quoted: a string is expected`)
    if (!isObject(valueFrom)) continue
    if (isSet(value) && value !== '') refuse(at, 'has value and valueFrom; leave one of them out')
    const sources = listGiven(valueFrom, VALUE_SOURCES)
    if (sources.length !== 1)
      refuse(at, `valueFrom needs exactly one source; it has ${sources.join(' and ') || 'none'}`)
  }
}

function checkPorts(container: Fields, spec: Fields, where: string, refuse: Refuse): void {
  const ports = readItems(container['ports'])
  checkKeys(ports, ['containerPort', 'protocol'], `${where}/ports`, refuse)
  checkKeys(
    ports.filter(({ name }) => isSet(name)),
    ['name'],
    `${where}/ports`,
    refuse,
  )
  for (const port of ports) {
    const { name, containerPort, hostPort } = port
    const at = `${where}/ports/${String(name ?? containerPort)}`
    checkChoices(port, at, refuse)
    if (!isPortNumber(containerPort)) refuse(at, `containerPort ${show(containerPort)} is not a number from 1 to 65535`)
    if (isSet(name) && !PORT_NAME.test(String(name)))
      refuse(
        at,
        `${show(name)} is not a valid name of a port: it has at most 15 lower-case letters, digits and hyphens, with a letter`,
      )
    if (isSet(hostPort) && hostPort !== 0 && !isPortNumber(hostPort))
      refuse(at, `hostPort ${show(hostPort)} is not a number from 1 to 65535`)
    if (spec['hostNetwork'] === true && isSet(hostPort) && hostPort !== containerPort)
      refuse(at, 'hostPort must be containerPort where the pod has hostNetwork')
  }
}

const isPortNumber = (value: unknown): boolean => Number.isInteger(value) && Number(value) > 0 && Number(value) < 65_536

const leavesVolume = (path: unknown): boolean =>
  typeof path === 'string' && (path.startsWith('/') || path.split('/').includes('..'))

function checkSubPaths(paths: readonly unknown[], at: string, refuse: Refuse): void {
  if (paths.length > 1) refuse(at, 'has subPath and subPathExpr; leave one of them out')
  for (const path of paths) if (leavesVolume(path)) refuse(at, `${path} must be a path within the volume`)
}

function checkMounts(container: Fields, volumes: ReadonlySet<unknown>, where: string, refuse: Refuse): void {
  const mounts = readItems(container['volumeMounts'])
  checkKeys(mounts, ['mountPath'], `${where}/volumeMounts`, refuse)
  for (const { name, mountPath, subPath, subPathExpr } of mounts) {
    const at = `${where}/volumeMounts/${String(mountPath)}`
    if (!volumes.has(name)) refuse(at, `the pod has no volume ${show(name)}`)
    if (typeof mountPath !== 'string' || mountPath === '') refuse(at, `${show(mountPath)} is not a valid mount path`)
    checkSubPaths([subPath, subPathExpr].filter(isSet), at, refuse)
  }
  const devices = readItems(container['volumeDevices'])
  checkKeys(devices, ['devicePath'], `${where}/volumeDevices`, refuse)
  for (const { name } of devices)
    if (!volumes.has(name)) refuse(`${where}/volumeDevices`, `the pod has no volume ${show(name)}`)
}

/** Checks a probe or hook. The kubelet looks up its port name in the container, and fails if it is missing. */
function checkHandler(container: Fields, handler: Fields, where: string, refuse: Refuse): void {
  const names = readItems(container['ports']).flatMap(({ name }) => (isSet(name) ? [String(name)] : []))
  const ways = listGiven(handler, HANDLERS)
  if (ways.length !== 1)
    refuse(where, `needs exactly one of ${HANDLERS.join(', ')}; it has ${ways.join(' and ') || 'none'}`)
  for (const way of ['httpGet', 'tcpSocket']) {
    const { port, scheme } = readFields(handler[way])
    if (!isSet(handler[way])) continue
    if (!isPortNumber(port) && !PORT_NAME.test(String(port)))
      refuse(`${where}/${way}/port`, `${show(port)} is neither a number from 1 to 65535 nor a name`)
    else if (typeof port === 'string' && !names.includes(port))
      refuse(
        `${where}/${way}/port`,
        `container ${String(container['name'])} has no port ${show(port)}; ${formatPorts(names)}`,
      )
    if (isSet(scheme) && scheme !== 'HTTP' && scheme !== 'HTTPS')
      refuse(`${where}/${way}/scheme`, `${show(scheme)} is not HTTP or HTTPS`)
  }
}

const formatPorts = (names: readonly string[]): string =>
  names.length === 0 ? 'none of its ports has a name' : `its ports are ${names.join(', ')}`

function checkProbes(container: Fields, where: string, refuse: Refuse): void {
  for (const name of PROBES) {
    const probe = container[name]
    if (!isObject(probe)) continue
    const at = `${where}/${name}`
    checkHandler(container, probe, at, refuse)
    if (isSet(probe['sleep'])) refuse(at, 'a probe can’t sleep')
    for (const field of [
      'initialDelaySeconds',
      'periodSeconds',
      'timeoutSeconds',
      'failureThreshold',
      'successThreshold',
    ])
      if (isSet(probe[field]) && (!Number.isInteger(probe[field]) || Number(probe[field]) < 0))
        refuse(`${at}/${field}`, `${show(probe[field])} is not a whole number of 0 or more`)
    const { successThreshold } = probe
    if (name !== 'readinessProbe' && isSet(successThreshold) && Number(successThreshold) > 1)
      refuse(`${at}/successThreshold`, 'must be 1')
  }
}

function checkLifecycle(container: Fields, spec: Fields, where: string, refuse: Refuse): void {
  for (const [name, handler] of Object.entries(readFields(container['lifecycle']))) {
    if (!isObject(handler)) continue
    const at = `${where}/lifecycle/${name}`
    checkHandler(container, handler, at, refuse)
    if (isSet(handler['grpc'])) refuse(at, 'a hook can’t call gRPC')
    const { seconds } = readFields(handler['sleep'])
    const { terminationGracePeriodSeconds: grace = 30 } = spec
    if (typeof seconds === 'number' && typeof grace === 'number' && seconds > grace)
      refuse(at, `sleeps ${seconds} seconds, longer than terminationGracePeriodSeconds, ${grace}`)
  }
}

function checkCommand(container: Fields, where: string, refuse: Refuse): void {
  for (const field of ['command', 'args'])
    for (const text of Array.isArray(container[field]) ? (container[field] as unknown[]) : [])
      if (typeof text !== 'string') refuse(`${where}/${field}`, `${show(text)} must be quoted: a string is expected`)
}

interface Surroundings {
  readonly list: string
  readonly spec: Fields
  readonly volumes: ReadonlySet<unknown>
}

function checkContainer(container: Fields, { list, spec, volumes }: Surroundings, refuse: Refuse): void {
  const { name, restartPolicy } = container
  const where = `/spec/${list}/${String(name)}`
  if (!LABEL.test(String(name)))
    refuse(where, `${show(name)} is not a valid name of a container: it has lower-case letters, digits and hyphens`)
  checkChoices(container, where, refuse)
  checkEnv(container, where, refuse)
  checkPorts(container, spec, where, refuse)
  checkMounts(container, volumes, where, refuse)
  checkProbes(container, where, refuse)
  checkLifecycle(container, spec, where, refuse)
  checkCommand(container, where, refuse)
  if (list === 'initContainers' && restartPolicy !== 'Always')
    for (const field of listGiven(container, ['lifecycle', ...PROBES]))
      refuse(`${where}/${field}`, 'an init container has this only with restartPolicy Always')
  const { privileged, allowPrivilegeEscalation } = readFields(container['securityContext'])
  if (privileged === true && allowPrivilegeEscalation === false)
    refuse(`${where}/securityContext`, 'privileged needs allowPrivilegeEscalation')
}

function checkVolumes(spec: Fields, refuse: Refuse): ReadonlySet<unknown> {
  const volumes = readItems(spec['volumes'])
  checkKeys(volumes, ['name'], '/spec/volumes', refuse)
  for (const { name, ...sources } of volumes) {
    if (!LABEL.test(String(name))) refuse('/spec/volumes', `${show(name)} is not a valid name of a volume`)
    const types = Object.keys(sources).filter((type) => isSet(sources[type]))
    if (types.length !== 1)
      refuse(`/spec/volumes/${String(name)}`, `needs exactly one source; it has ${types.join(' and ') || 'none'}`)
  }
  return new Set(volumes.map(({ name }) => name))
}

function checkTolerations(spec: Fields, refuse: Refuse): void {
  readItems(spec['tolerations']).forEach(({ key, operator, value, effect, tolerationSeconds }, at) => {
    const where = `/spec/tolerations/${at}`
    if (operator === 'Exists' && isSet(value) && value !== '')
      refuse(where, 'has a value, which operator Exists does not take')
    if (isSet(value) && typeof value !== 'string')
      refuse(where, `the value ${show(value)} must be quoted: a string is expected`)
    if (!isSet(key) && operator !== 'Exists') refuse(where, 'needs a key, or operator Exists')
    if (isSet(effect) && !['', 'NoSchedule', 'PreferNoSchedule', 'NoExecute'].includes(effect as string))
      refuse(where, `effect ${show(effect)} is not one of NoSchedule, PreferNoSchedule, NoExecute`)
    if (isSet(tolerationSeconds) && effect !== 'NoExecute') refuse(where, 'tolerationSeconds needs effect NoExecute')
  })
}

function checkPod(spec: Fields, refuse: Refuse): void {
  const { restartPolicy, hostname, subdomain, activeDeadlineSeconds, serviceAccountName } = spec
  checkChoices(spec, '/spec', refuse)
  if (isSet(restartPolicy) && restartPolicy !== 'Always')
    refuse('/spec/restartPolicy', 'must be Always: the pod serves until it is stopped')
  if (isSet(activeDeadlineSeconds)) refuse('/spec/activeDeadlineSeconds', 'is only for Jobs')
  if (readItems(spec['ephemeralContainers']).length > 0)
    refuse('/spec/ephemeralContainers', 'can’t be set in a template')
  for (const [field, name] of Object.entries({ hostname, subdomain }))
    if (isSet(name) && !LABEL.test(String(name))) refuse(`/spec/${field}`, `${show(name)} is not a valid host name`)
  if (isSet(serviceAccountName) && serviceAccountName !== '' && !SUBDOMAIN.test(String(serviceAccountName)))
    refuse('/spec/serviceAccountName', `${show(serviceAccountName)} is not a valid name of an object`)
  checkTexts(spec['nodeSelector'], '/spec/nodeSelector', refuse, isLabelValue)
  for (const [list, keys] of Object.entries({
    hostAliases: ['ip'],
    imagePullSecrets: ['name'],
    resourceClaims: ['name'],
    schedulingGates: ['name'],
    topologySpreadConstraints: ['topologyKey', 'whenUnsatisfiable'],
  }))
    checkKeys(readItems(spec[list]), keys, `/spec/${list}`, refuse)
  for (const constraint of readItems(spec['topologySpreadConstraints']))
    checkChoices(constraint, '/spec/topologySpreadConstraints', refuse)
}

interface Template {
  readonly metadata: { readonly labels?: unknown; readonly annotations?: unknown }
  readonly spec: Fields
}

/** Adds to `problems` what the API server would refuse of a merged pod template, each with its location. */
export function checkRules({ metadata, spec }: Template, problems: string[]): void {
  const refuse: Refuse = (where, message) => problems.push(`${where}: ${message}`)
  checkTexts(metadata.labels, '/metadata/labels', refuse, isLabelValue)
  checkTexts(metadata.annotations, '/metadata/annotations', refuse)
  checkPod(spec, refuse)
  checkTolerations(spec, refuse)
  const volumes = checkVolumes(spec, refuse)
  const names: Fields[] = []
  for (const list of ['initContainers', 'containers'])
    for (const container of readItems(spec[list])) {
      names.push(container)
      checkContainer(container, { list, spec, volumes }, refuse)
    }
  checkKeys(names, ['name'], '/spec/containers', refuse)
}

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

export const containerLists = ['containers', 'initContainers', 'ephemeralContainers']

const describeShape = (value: unknown) => (Array.isArray(value) ? 'a list' : isObject(value) ? 'an object' : 'a value')

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
  else if (isObject(value)) checkFields(value, isObject(base) ? base : undefined, pointer, problems)
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
    if (!isObject(item)) {
      if (mergeKey !== undefined) problems.push(`${pointer}: an object is expected here`)
      return
    }
    if (mergeKey !== undefined && item[mergeKey] === undefined) problems.push(`${pointer}: ${mergeKey} is missing`)
    if (containerLists.includes(key)) checkKnown(item, containerFields, pointer, problems)
    const under = mergeKey && base.find((candidate) => isObject(candidate) && candidate[mergeKey] === item[mergeKey])
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
  if (isObject(patch['spec'])) checkKnown(patch['spec'], podFields, '/spec', problems)
  checkShapes(patch, base, { pointer: '', key: '' }, problems)
}

/** The most names of containers in a message. */
const MOST_HINTED = 20

/** Finds containers without an image: the patch probably misspelt the name of the container that it meant to change. */
export function checkImages(spec: Fields, problems: string[]): void {
  const named = new Map(
    containerLists.map((list) => [list, new Set(((spec[list] ?? []) as Fields[]).map(({ name }) => String(name)))]),
  )
  const all = [...(named.get('initContainers') ?? []), ...(named.get('containers') ?? [])]
  const firstOther = (name: unknown) => all.slice(0, MOST_HINTED + 1).filter((other) => other !== name)
  for (const list of containerLists) {
    for (const { name, image } of (spec[list] ?? []) as Fields[]) {
      if (image !== undefined) continue
      const elsewhere = containerLists.find((other) => other !== list && named.get(other)?.has(String(name)) === true)
      const hint = elsewhere
        ? `it is one of ${elsewhere} here`
        : `no container has this name; there are ${firstOther(name).join(', ')}`
      problems.push(`/spec/${list}: container ${JSON.stringify(name)} has no image: ${hint}`)
    }
  }
}
