import { getOrganization, updateOrganization } from '@bursar/contract'
import type { Input } from '@bursar/contract/client'
import type { Received } from '@bursar/contract/kit'
import { useId, useState } from 'react'
import { useChange, useRead } from '../../app/api.ts'
import { useAsCode } from '../../app/drawers.ts'
import { island } from '../../app/island.ts'
import { t } from '../../app/texts.ts'
import { complaintsOf, Field, Form, Labelled, textOf } from '../../kit/form.tsx'
import { Panel } from '../../kit/layout.tsx'
import { Loaded } from '../../kit/states.tsx'
import { toast } from '../../kit/toast.tsx'

type Organization = Received<typeof getOrganization>
type Change = Input<typeof updateOrganization>['body']

const params = { id: island.organization.id }

/** Checkout, brand and mails of the organization. */
const OrganizationSettings = () => {
  const read = useRead(getOrganization, { params })
  useAsCode(getOrganization, { params })
  return (
    <Loaded read={read} lines={8}>
      {(organization) => (
        <>
          <Checkout organization={organization} />
          <Brand organization={organization} />
          <Mails organization={organization} />
          <Notifications organization={organization} />
        </>
      )}
    </Loaded>
  )
}
export default OrganizationSettings

/** Saves a part of the settings. The message offers to take the change back. */
const useSave = () => {
  const update = useChange(updateOrganization, ['organizations'])
  const save = (body: Change, before: Change) =>
    update.mutate(
      { params, body },
      { onSuccess: () => toast(t.settings.saved, () => update.mutate({ params, body: before }, { onSuccess: () => toast(t.settings.restored) })) },
    )
  return { save, error: update.error, busy: update.isPending }
}

/** A setting that is on or off, with its consequence in words. */
const Switch = ({ name, label, hint, on }: { name: string; label: string; hint?: string; on: boolean }) => {
  const id = useId()
  return (
    <div>
      <label className="choice">
        <input type="checkbox" name={name} defaultChecked={on} aria-describedby={hint === undefined ? undefined : id} />
        {label}
      </label>
      {hint !== undefined && (
        <p id={id} className="soft">
          {hint}
        </p>
      )}
    </div>
  )
}

const Checkout = ({ organization }: { organization: Organization }) => {
  const { save, error, busy } = useSave()
  const s = t.settings.checkout
  const on = organization.feature_settings?.saved_payment_methods_enabled ?? false
  const changeOf = (saved_payment_methods_enabled: boolean): Change => ({ feature_settings: { saved_payment_methods_enabled } })
  return (
    <Panel title={s.title}>
      <Form
        key={String(on)}
        label={s.title}
        send={t.settings.save}
        busy={busy}
        error={error}
        fields={[]}
        onSend={(data) => save(changeOf(data.has('saved')), changeOf(on))}
      >
        <Switch name="saved" label={s.saved} hint={s.savedAbout} on={on} />
      </Form>
    </Panel>
  )
}

const Brand = ({ organization: { brand_settings } }: { organization: Organization }) => {
  const { save, error, busy } = useSave()
  const s = t.settings.brand
  const complaints = complaintsOf(error)
  const names = ['accent_color', 'terms_url', 'privacy_url'] as const
  return (
    <Panel title={s.title}>
      <Form
        key={JSON.stringify(brand_settings)}
        label={s.title}
        send={t.settings.save}
        busy={busy}
        error={error}
        fields={names.map((name) => `brand_settings.${name}`)}
        onSend={(data) => save({ brand_settings: Object.fromEntries(names.map((name) => [name, textOf(data, name)])) }, { brand_settings })}
      >
        <Color value={brand_settings.accent_color ?? ''} complaint={complaints['brand_settings.accent_color']} />
        {(['terms_url', 'privacy_url'] as const).map((name) => (
          <Field
            key={name}
            name={name}
            label={s.fields[name]}
            hint={s.hints[name]}
            type="url"
            value={brand_settings[name] ?? ''}
            complaint={complaints[`brand_settings.${name}`]}
          />
        ))}
      </Form>
    </Panel>
  )
}

/** The color of the brand: a field for its digits, and the color picker of the browser beside it. */
const Color = ({ value, complaint }: { value: string; complaint: string | undefined }) => {
  const [color, setColor] = useState(value)
  const s = t.settings.brand
  return (
    <Labelled label={`${s.fields.accent_color} (${t.optional})`} hint={s.hints.accent_color} complaint={complaint}>
      {(control) => (
        <div className="color">
          <input
            type="color"
            aria-label={s.pick}
            value={/^#[0-9a-f]{6}$/i.test(color) ? color.toLowerCase() : '#18181b'}
            onChange={({ target }) => setColor(target.value)}
          />
          <input
            {...control}
            name="accent_color"
            type="text"
            autoComplete="off"
            placeholder="#1f6feb"
            value={color}
            onChange={({ target }) => setColor(target.value)}
          />
        </div>
      )}
    </Labelled>
  )
}

type Switches = Readonly<Record<string, boolean | undefined>>

/** Several settings that are on or off, saved together. */
const SwitchList = <S extends Switches>({
  title,
  about,
  names,
  current,
  usual,
  changeOf,
}: {
  title: string
  about: string
  names: Readonly<Record<string, string>>
  current: S
  /** The value of a setting that the answer leaves out. */
  usual: boolean
  changeOf: (chosen: S) => Change
}) => {
  const { save, error, busy } = useSave()
  return (
    <Panel title={title}>
      <p className="soft">{about}</p>
      <Form
        key={JSON.stringify(current)}
        label={title}
        send={t.settings.save}
        busy={busy}
        error={error}
        fields={[]}
        onSend={(data) => save(changeOf({ ...current, ...Object.fromEntries(Object.keys(names).map((name) => [name, data.has(name)])) }), changeOf(current))}
      >
        <div className="switches">
          {Object.entries(names).map(([name, label]) => (
            <Switch key={name} name={name} label={label} on={current[name] ?? usual} />
          ))}
        </div>
      </Form>
    </Panel>
  )
}

const Mails = ({ organization: { customer_email_settings } }: { organization: Organization }) => (
  <SwitchList
    title={t.settings.mails.title}
    about={t.settings.mails.about}
    names={t.settings.mails.names}
    current={customer_email_settings}
    usual
    changeOf={(chosen) => ({ customer_email_settings: chosen })}
  />
)

const Notifications = ({ organization: { notification_settings } }: { organization: Organization }) => (
  <SwitchList
    title={t.settings.notifications.title}
    about={t.settings.notifications.about}
    names={t.settings.notifications.names}
    current={notification_settings}
    usual={false}
    changeOf={(chosen) => ({ notification_settings: chosen })}
  />
)
