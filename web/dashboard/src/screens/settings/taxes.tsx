import { getTaxSettings, updateTaxSettings } from '@bursar/contract'
import type { Received } from '@bursar/contract/kit'
import countries from 'contract-data:countries'
import { useChange, useRead } from '../../app/api.ts'
import { useAsCode } from '../../app/drawers.ts'
import { island, may } from '../../app/island.ts'
import { t } from '../../app/texts.ts'
import { complaintsOf, Field, Form, textOf } from '../../kit/form.tsx'
import { percent } from '../../kit/format.ts'
import { Panel } from '../../kit/layout.tsx'
import { Loaded } from '../../kit/states.tsx'
import { toast } from '../../kit/toast.tsx'

type Settings = Received<typeof getTaxSettings>
type Rate = Settings['rates'][number]

const names = new Intl.DisplayNames(island.locale, { type: 'region' })
const choices = countries.map((code) => [code, names.of(code) ?? code] as const).toSorted(([, one], [, other]) => one.localeCompare(other, island.locale))
const placeOf = ({ country, state }: Rate): string => (state === null ? (names.of(country) ?? country) : `${names.of(country)}, ${state}`)

/** The tax that buyers pay: one rate for each place, in which tax is collected. */
const Taxes = () => {
  const query = { organization_id: island.organization.id }
  const read = useRead(getTaxSettings, { query })
  useAsCode(getTaxSettings, { query })
  return (
    <Loaded read={read} lines={5}>
      {(settings) => <Rates settings={settings} />}
    </Loaded>
  )
}
export default Taxes

const Rates = ({ settings: { provider, rates, modified_at } }: { settings: Settings }) => {
  const update = useChange(updateTaxSettings, ['tax-settings'])
  const s = t.settings.taxes
  const save = (next: readonly Rate[], done: string) => {
    const change = (list: readonly Rate[]) => ({
      body: { organization_id: island.organization.id, provider: list.length === 0 ? ('none' as const) : ('rates' as const), rates: [...list] },
    })
    update.mutate(change(next), { onSuccess: () => toast(done, () => update.mutate(change(rates), { onSuccess: () => toast(t.settings.restored) })) })
  }
  const isEditable = may('finance:manage') && provider !== 'service'
  const add = (data: FormData) => {
    const country = (textOf(data, 'country') ?? '') as Rate['country']
    const rate = { country, state: null, rate: (textOf(data, 'rate') ?? '').replace(',', '.'), reverse_charge: data.has('reverse_charge') }
    save([...rates.filter((one) => one.country !== country || one.state !== null), rate], s.added(placeOf(rate)))
  }
  const complaints = complaintsOf(update.error)
  const rateComplaint = Object.entries(complaints).find(([field]) => field.endsWith('.rate'))
  return (
    <>
      <Panel title={s.title}>
        <p>{s.about[provider]}</p>
        {isEditable && provider === 'none' && modified_at === null && (
          <button type="button" aria-busy={update.isPending} onClick={() => save([], s.noneChosen)}>
            {s.chooseNone}
          </button>
        )}
        {provider === 'rates' && (
          <ul className="rows">
            {rates.map((rate) => (
              <li key={placeOf(rate)}>
                <span>
                  {placeOf(rate)} {rate.reverse_charge && <span className="tag">{s.reverse}</span>}
                </span>
                <span>{percent(Number(rate.rate) / 100)}</span>
                {isEditable && (
                  <button
                    type="button"
                    aria-label={s.removeOf(placeOf(rate))}
                    onClick={() =>
                      save(
                        rates.filter((one) => one !== rate),
                        s.removed(placeOf(rate)),
                      )
                    }
                  >
                    {s.remove}
                  </button>
                )}
              </li>
            ))}
          </ul>
        )}
      </Panel>
      {isEditable && (
        <Panel title={s.add}>
          <Form
            key={JSON.stringify(rates)}
            label={s.add}
            send={s.add}
            busy={update.isPending}
            error={update.error}
            fields={rateComplaint ? [rateComplaint[0]] : []}
            onSend={add}
          >
            <div className="pair">
              <Field name="country" label={s.country} required value="" choices={[['', s.choose], ...choices]} />
              <Field name="rate" label={s.rate} required placeholder="19" complaint={rateComplaint?.[1]} />
            </div>
            <label className="choice">
              <input type="checkbox" name="reverse_charge" aria-describedby="reverse-about" />
              {s.reverse}
            </label>
            <p id="reverse-about" className="soft">
              {s.reverseAbout}
            </p>
          </Form>
        </Panel>
      )}
    </>
  )
}
