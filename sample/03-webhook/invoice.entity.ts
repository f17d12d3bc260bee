import { Column, Entity, PrimaryColumn } from 'typeorm';

@Entity('invoices')
export class Invoice {
  @PrimaryColumn()
  number!: string;

  /** Cents that have been paid. */
  @Column({ default: 0 })
  paid!: number;
}
