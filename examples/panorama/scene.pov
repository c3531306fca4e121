camera { spherical angle 360 180 location <0, 1.5, 0> look_at <0, 1.5, 1> }
light_source { <20, 40, -30> rgb 1 }
sky_sphere { pigment { gradient y color_map { [0 rgb <1, 0.9, 0.7>] [0.6 rgb <0.2, 0.4, 0.8>] } } }
plane { y, 0 pigment { checker rgb 0.9, rgb 0.4 } finish { reflection 0.1 } }
#for (I, 0, 11)
  sphere { <0, 1, 6> 1 pigment { rgb <I / 11, 0.3, 1 - I / 11> } finish { phong 0.8 reflection 0.2 } rotate y * 30 * I }
#end
